// Gives the token once; the browser keeps a cookie that scripts cannot read.
const status = document.getElementById("status");

document.getElementById("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  status.textContent = "";
  try {
    const response = await fetch("/api/login", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Pairsieve": "1" },
      body: JSON.stringify({ token: document.getElementById("token").value.trim() }),
    });
    if (response.ok) location.replace("/");
    else status.textContent = (await response.json()).detail;
  } catch {
    status.textContent = "The server cannot be reached.";
  }
});
