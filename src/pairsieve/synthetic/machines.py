"""What do people ask about machines and code? Families of phones, programs, files, cars and appliances."""

from __future__ import annotations

from pairsieve.synthetic.grammar import Family, Intent

MACHINES = (
    Family(
        "phones",
        (
            "camera",
            "battery",
            "touch screen|display",
            "microphone|mic",
            "speaker|loudspeaker",
            "alarm clock|alarm",
            "mobile data|cellular data",
            "Bluetooth",
            "fingerprint sensor|fingerprint reader",
            "contact list|address book",
            "photo gallery|picture gallery",
            "keyboard",
            "GPS|location",
            "voicemail|answering machine",
            "flashlight|torch",
            "SIM card",
        ),
        (
            Intent(
                (
                    "the {o} of my phone stopped working after {a}.",
                    "why is the {o} dead ever since {a}",
                    "{a} and now my phone's {o} does nothing.",
                    "how can I revive the {o} on my mobile, it died after {a}",
                ),
                (
                    "the last update|a system upgrade",
                    "it fell in water|a bath in the sink",
                    "a drop on the floor|it hit the ground",
                    "a factory reset|wiping it clean",
                ),
            ),
            Intent(
                (
                    "how do I {a} the {o} on my phone",
                    "in which menu can I {a} the {o}",
                    "is there a setting on my mobile that lets me {a} the {o}",
                    "I would like to {a} the phone's {o} but cannot find where.",
                ),
                ("turn on|enable", "turn off|disable", "reset|restore", "test|check"),
            ),
            Intent(
                (
                    "what does a repair of the {o} cost",
                    "how much will a shop charge to replace my phone's {o}",
                    "is fixing the {o} worth the price or should I buy a new phone",
                ),
            ),
            Intent(
                (
                    "which apps use my {o} [secretly|in the background]",
                    "can I see what programs get access to the {o}",
                    "I worry that something is spying through the {o} of my phone.",
                    "how do I take away an app's permission for the {o}",
                ),
            ),
            Intent(
                (
                    "which {a} has the best {o}",
                    "if the {o} matters most to me, what {a} should I buy",
                    "recommend a {a} with a really good {o}.",
                ),
                (
                    "budget phone|cheap phone",
                    "flagship phone|top model",
                    "phone for seniors|phone for old people",
                ),
            ),
        ),
    ),
    Family(
        "programming",
        (
            "sort a list|put a list in order",
            "read a text file|load a text file",
            "parse JSON|decode JSON",
            "split a string|cut a string into pieces",
            "remove duplicates from a list|keep only unique items",
            "reverse a string|turn a string around",
            "send an HTTP request|call a web API",
            "format a date|print a date",
            "catch an exception|handle an error",
            "generate random numbers|draw random numbers",
            "round a number|round to two decimals",
            "measure elapsed time|time a function",
            "merge two dictionaries|combine two maps",
            "write a unit test|test a function",
            "run code in parallel|use several threads",
            "connect to a database|open a database connection",
        ),
        (
            Intent(
                (
                    "how do I {o} in {a}",
                    "what is the idiomatic {a} way to {o}",
                    "I am new to {a} and have to {o}.",
                    "{a} beginner here, which function lets me {o}",
                ),
                ("Python", "Java", "JavaScript", "Rust", "Go", "C++"),
            ),
            Intent(
                (
                    "why is it so slow in {a} to {o}",
                    "my {a} program takes forever to {o}, how to speed it up",
                    "performance tips needed: {a} code that must {o}.",
                ),
                ("Python", "Java", "JavaScript"),
            ),
            Intent(
                (
                    "can I {o} without [any library|extra packages] in {a}",
                    "is the standard library of {a} enough to {o}",
                    "no dependencies allowed, how would you {o} with plain {a}",
                ),
                ("Python", "Rust", "C++"),
            ),
        ),
    ),
    Family(
        "file conversion",
        (
            "PDF to Word",
            "Word to PDF",
            "JPG to PNG",
            "PNG to JPG",
            "MP3 to WAV",
            "WAV to MP3",
            "Excel to CSV",
            "CSV to Excel",
            "video to GIF",
            "GIF to video",
            "EPUB to Kindle",
            "Kindle to EPUB",
            "scan to text",
            "text to speech",
        ),
        (
            Intent(
                (
                    "how do I convert {o} [on|with] {a}",
                    "is there a program for {a} that turns {o}",
                    "I own {a} and want to change files from {o}.",
                    "{a}: what tool does {o} conversion",
                ),
                ("a Mac|macOS", "Windows|a Windows PC", "Linux", "an iPad|my tablet"),
            ),
            Intent(
                (
                    "how can I go from {o} without losing {a}",
                    "when converting {o} the {a} gets worse, what helps",
                    "which converter from {o} preserves the {a}",
                ),
                ("quality|sharpness and fidelity", "layout|formatting", "metadata|title and author"),
            ),
            Intent(
                (
                    "can I convert {o} for many files at once",
                    "I have hundreds of files to take from {o}, how to batch it",
                    "is there bulk processing for {o}",
                ),
            ),
            Intent(
                (
                    "why does the file get {a} after going from {o}",
                    "{o} conversion leaves me with a {a} file, what is the cause",
                    "the result of {o} is {a} than before, is that normal",
                ),
                ("bigger|larger", "smaller|more compact"),
            ),
            Intent(
                (
                    "is it safe to use a website for {o}",
                    "do online {o} converters keep a copy of my private files",
                    "should I trust a free web page with {o} conversion",
                ),
            ),
        ),
    ),
    Family(
        "cars",
        (
            "brakes",
            "front tyres|front tires",
            "windscreen wipers|windshield wipers",
            "headlights",
            "spark plugs",
            "shock absorbers",
            "brake pads",
            "rear tyres|rear tires",
            "heated seats",
            "power windows|electric windows",
            "parking sensors",
            "fuel injectors",
            "door locks",
            "wheel bearings",
            "fog lamps|fog lights",
            "side mirrors|wing mirrors",
        ),
        (
            Intent(
                (
                    "what causes the {o} to {a}",
                    "the {o} of my car {a}, where does that come from",
                    "my {o} suddenly {a}, what is behind it",
                    "any idea about the reason why {o} {a}",
                ),
                (
                    "make noise|squeak and rattle",
                    "fail in the cold|quit in winter",
                    "wear out early|die too soon",
                ),
            ),
            Intent(
                (
                    "how do I get rid of it when my {o} {a}",
                    "the {o} on my car {a}, how do I cure that",
                    "is there a fix for {o} that {a}",
                    "tell me a remedy, my {o} always {a}.",
                ),
                (
                    "make noise|squeak and rattle",
                    "fail in the cold|quit in winter",
                    "wear out early|die too soon",
                ),
            ),
            Intent(
                (
                    "what does a garage charge for the {a} of {o}",
                    "is there a fair price for the {a} of {o}",
                    "my mechanic wants a lot for the {a} of my {o}, is that normal",
                ),
                ("replacement|renewal", "inspection|check-up"),
            ),
            Intent(
                (
                    "how [often|many miles apart] should {o} be changed",
                    "when is it time for new {o}",
                    "after what distance do {o} need replacing",
                    "how many years do {o} last on average",
                ),
            ),
            Intent(
                (
                    "can I [change|swap] the {o} myself at home",
                    "do I need a mechanic to install {o}",
                    "which tools does an amateur want to fit new {o}",
                ),
            ),
            Intent(
                (
                    "is it legal to drive with faulty {o}",
                    "will the police fine me if my {o} are broken",
                    "may I still use the car while the {o} do not work",
                ),
            ),
        ),
    ),
    Family(
        "appliances",
        (
            "washing machine|washer",
            "dishwasher",
            "fridge|refrigerator",
            "freezer|deep freezer",
            "tumble dryer|clothes dryer",
            "oven",
            "microwave",
            "vacuum cleaner|hoover",
            "kettle|water boiler",
            "toaster",
            "air conditioner|AC unit",
            "boiler|water heater",
            "sewing machine",
            "lawn mower|grass cutter",
            "blender|smoothie maker",
            "electric shaver|razor",
        ),
        (
            Intent(
                (
                    "why does my {o} {a}",
                    "what is the cause when the {o} starts to {a}",
                    "my {o} began to {a}, what went wrong",
                    "for what reason would the {o} {a} all of a sudden",
                ),
                (
                    "smell bad|stink",
                    "make a loud noise|rumble loudly",
                    "trip the fuse|blow the breaker",
                    "leak|drip on the floor",
                ),
            ),
            Intent(
                (
                    "how do I make my {o} not {a}",
                    "what can be done so the {o} will no longer {a}",
                    "I want a {o} that does not {a}, how do I fix mine",
                    "the {o} must not {a} any more, which trick helps",
                ),
                (
                    "smell bad|stink",
                    "make a loud noise|rumble loudly",
                    "trip the fuse|blow the breaker",
                    "leak|drip on the floor",
                ),
            ),
            Intent(
                (
                    "which {o} uses the least {a}",
                    "I want to save {a}, what {o} is the most economical",
                    "how much {a} does a modern {o} need",
                ),
                ("electricity|power", "space|room"),
            ),
            Intent(
                (
                    "how do I clean the [inside|inner parts] of my {o}",
                    "what removes the dirt within the {o}",
                    "my {o} is filthy inside, is vinegar a good idea",
                ),
            ),
            Intent(
                (
                    "is it worth buying a used {o}",
                    "would you get the {o} second hand or new",
                    "somebody offers me their old {o}, should I take it",
                ),
            ),
        ),
    ),
    Family(
        "home network",
        (
            "router",
            "laptop|notebook computer",
            "printer",
            "smart TV|television",
            "game console",
            "security camera|surveillance camera",
            "smart speaker|voice assistant",
            "tablet",
            "desktop PC|tower computer",
            "baby monitor",
            "thermostat|heating control",
            "e-reader|ebook reader",
            "doorbell|video doorbell",
            "network drive|file server",
            "robot vacuum|vacuum robot",
            "smart watch",
        ),
        (
            Intent(
                (
                    "my {o} [will not|does not] connect to the {a}.",
                    "what to check when the {o} cannot find the {a}",
                    "the {a} works fine elsewhere but not on my {o}.",
                    "how do I hook up the {o} with the {a}",
                ),
                ("wifi|wireless network", "VPN", "guest network|visitors' network", "5 GHz band|faster band"),
            ),
            Intent(
                (
                    "how do I {a} the password of my {o}",
                    "is there a way to {a} the login code on the {o}",
                    "I need to {a} the {o} password but no idea where.",
                ),
                ("change|update", "recover|find out", "remove|switch off"),
            ),
            Intent(
                (
                    "has my {o} been [hacked|broken into]",
                    "what are the signs that someone controls the {o}",
                    "my {o} acts strangely, could it be a virus",
                ),
            ),
            Intent(
                (
                    "how far can the {o} be from the {a}",
                    "what distance is fine between the {o} and my {a}",
                    "my {a} is in another room than the {o}, does that matter",
                ),
                ("power outlet|wall socket", "access point|wireless hub"),
            ),
            Intent(
                (
                    "should I {a} the {o} at night",
                    "does it hurt to {a} my {o} while we sleep",
                    "everybody says to {a} the {o} before bed, is that true",
                ),
                ("unplug|cut the power to", "restart|reboot"),
            ),
        ),
    ),
)
