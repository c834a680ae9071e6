// Which words or letters of two texts differ? Their longest common subsequence, without regard to case.

const MOST_CELLS = 400_000; // beyond this: words that the other text does not have at all
const LEAST_COMMON = 1 / 3; // of the words of the shorter; with less, marking everything would say nothing
const SHORT = 60; // letters of a value that may be compared letter by letter

const pieces = (text) => text.match(/\s+|[\p{L}\p{N}\p{M}]+|[^\s\p{L}\p{N}\p{M}]/gu) || [];
const letters = (text) => text.match(/\P{M}\p{M}*|\p{M}+/gu) || []; // an accent stays with its letter
const isWord = (piece) => !/^\s/.test(piece);
const isRead = (piece) => /[\p{L}\p{N}]/u.test(piece); // commas and slashes are common to any two texts
const words = (all) => all.filter(isWord).map((word) => word.toLowerCase());
const whole = (left, right, differs) => [[[left, differs]], [[right, differs]]];

/** Two lists of [text, differs], one per side, whose texts joined are the given texts. */
export function difference(left, right) {
  return byWords(left, right) ?? whole(left, right, false);
}

/** As `difference`, of two values of one field. Short values that share few words are compared letter by
 * letter; with few letters in common they are marked whole. */
export function valueDifference(left, right) {
  if (Math.max(left.length, right.length) > SHORT) return difference(left, right);
  const [x, y] = [letters(left), letters(right)];
  return byWords(left, right) ?? compared(x, y, Math.max(x.length, y.length) / 2) ?? whole(left, right, true);
}

/** Whether two texts have the same words and marks in the same order, without regard to case and blanks. */
export function sameWords(left, right) {
  return words(pieces(left)).join(" ") === words(pieces(right)).join(" ");
}

function byWords(left, right) {
  const [a, b] = [pieces(left), pieces(right)];
  return compared(a, b, LEAST_COMMON * Math.min(...[a, b].map((all) => all.filter(isRead).length)));
}

/** What of two lists of pieces differs; null where fewer than `least` are common. */
function compared(a, b, least) {
  const [x, y] = [words(a), words(b)];
  const [inLeft, inRight] = x.length * y.length <= MOST_CELLS ? common(x, y) : shared(x, y);
  const kept = x.filter((word, at) => inLeft[at] && isRead(word)).length;
  if (kept < least) return null;
  return [runs(a, inLeft), runs(b, inRight)];
}

function common(x, y) {
  const width = y.length + 1;
  const longest = new Uint16Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      longest[i * width + j] = x[i] === y[j]
        ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const [inLeft, inRight] = [x.map(() => false), y.map(() => false)];
  for (let i = 0, j = 0; i < x.length && j < y.length; ) {
    if (x[i] === y[j]) inLeft[i++] = inRight[j++] = true;
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i++;
    else j++;
  }
  return [inLeft, inRight];
}

function shared(x, y) {
  const [hasX, hasY] = [new Set(x), new Set(y)];
  return [x.map((word) => hasY.has(word)), y.map((word) => hasX.has(word))];
}

/** Neighbouring pieces of one kind joined; a gap between two words that differ belongs to them. */
function runs(all, isCommon) {
  let word = 0;
  const differs = all.map((piece) => (isWord(piece) ? !isCommon[word++] : null));
  const made = [];
  all.forEach((piece, at) => {
    const marked = differs[at] ?? (Boolean(differs[at - 1]) && Boolean(differs[at + 1]));
    if (made.length && made.at(-1)[1] === marked) made.at(-1)[0] += piece;
    else made.push([piece, marked]);
  });
  return made;
}
