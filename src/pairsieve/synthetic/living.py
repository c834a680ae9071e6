"""What do people ask about food, plants, animals, bodies and the home? Families of living and dwelling."""

from __future__ import annotations

from pairsieve.synthetic.grammar import Family, Intent

LIVING = (
    Family(
        "cooking",
        (
            "rice",
            "salmon",
            "chicken breast|chicken fillet",
            "lentils",
            "potatoes|spuds",
            "pasta|noodles",
            "pumpkin|squash",
            "broccoli",
            "pork ribs|spare ribs",
            "mushrooms",
            "tofu|bean curd",
            "beef stew",
            "eggs",
            "aubergine|eggplant",
            "chickpeas|garbanzos",
            "shrimp|prawns",
        ),
        (
            Intent(
                (
                    "how long [should|must] {o} cook {a}",
                    "how many minutes do you give {o} {a}",
                    "what is the right time for {o} {a}",
                    "when will {o} be done if made {a}",
                ),
                (
                    "in the oven|baked",
                    "in a pressure cooker|under pressure",
                    "in the microwave|microwaved",
                    "on the grill|over charcoal",
                    "in an air fryer|air fried",
                ),
            ),
            Intent(
                (
                    "can I freeze {o} {a} cooking",
                    "should {o} go in the freezer {a} cooking or is that unwise",
                    "would {o} keep well, put on ice {a} cooking",
                ),
                ("before|ahead of", "after|following"),
            ),
            Intent(
                (
                    "why do I [always|every time] end up with {a} {o}",
                    "what am I doing wrong, I get {a} {o}",
                    "{a} {o} again, which mistake is that",
                    "how do I keep {o} from becoming {a}",
                ),
                ("dry|overcooked", "soggy|mushy", "salty|oversalted", "bland|tasteless"),
            ),
            Intent(
                (
                    "what can I use [instead of|in place of] {o}",
                    "a replacement for {o} in a recipe, please.",
                    "we have no {o} at home, what would do as well",
                    "I am allergic to {o}, which food is similar",
                ),
            ),
            Intent(
                (
                    "how do I notice that {o} went bad",
                    "can I still eat week-old {o} from the fridge",
                    "what does spoiled {o} look or smell like",
                ),
            ),
        ),
    ),
    Family(
        "gardening",
        (
            "tomatoes",
            "roses",
            "basil plants",
            "strawberries",
            "orchids",
            "cucumbers",
            "tulips",
            "lavender bushes",
            "peppers|chillies",
            "hydrangeas",
            "carrots",
            "blueberries",
            "sunflowers",
            "mint plants",
            "succulents|cacti",
            "grapevines|vines",
        ),
        (
            Intent(
                (
                    "when is the right time to {a} {o}",
                    "in which month should I {a} my {o}",
                    "is it too early in the year to {a} {o}",
                    "do gardeners {a} {o} in spring or rather in autumn",
                ),
                ("plant|put in the ground", "prune|cut back", "harvest|pick", "repot|move to a new pot"),
            ),
            Intent(
                (
                    "why do my {o} have {a}",
                    "what is the cause of {a} on {o}",
                    "where do {a} on my {o} come from",
                ),
                (
                    "yellow leaves|leaves that go yellow",
                    "brown spots|dark patches",
                    "tiny flies|little gnats",
                ),
            ),
            Intent(
                (
                    "how do I get rid of {a} on my {o}",
                    "what is a cure for {o} with {a}",
                    "which treatment works on {o} against {a}",
                ),
                (
                    "yellow leaves|leaves that go yellow",
                    "brown spots|dark patches",
                    "tiny flies|little gnats",
                ),
            ),
            Intent(
                (
                    "how [much|often] should I water {o}",
                    "do {o} like it wet or dry",
                    "am I drowning my {o}, how many cans a week are fine",
                    "what amount of water is best for {o}",
                ),
            ),
            Intent(
                (
                    "can {o} grow {a}",
                    "is it possible to keep {o} {a}",
                    "would {o} be happy {a}",
                    "I only have a spot {a}, do {o} survive there",
                ),
                (
                    "indoors|inside the flat",
                    "in full shade|without any sun",
                    "on a windy balcony|in a lot of wind",
                ),
            ),
        ),
    ),
    Family(
        "pets",
        (
            "puppy|young dog",
            "cat",
            "rabbit|bunny",
            "hamster",
            "parrot",
            "goldfish",
            "guinea pig",
            "tortoise|turtle",
            "old dog|senior dog",
            "kitten|baby cat",
            "ferret",
            "canary",
            "horse",
            "hedgehog",
            "snake|python",
            "budgie|parakeet",
        ),
        (
            Intent(
                (
                    "can I give my {o} {a}",
                    "is {a} [dangerous|toxic] for my {o}",
                    "my {o} stole some {a}, should I be afraid",
                    "does a {o} tolerate {a} now and then",
                ),
                ("cheese|dairy", "apple|pieces of apple", "bread|toast", "cooked egg|boiled egg"),
            ),
            Intent(
                (
                    "why does my {o} {a}",
                    "what does it mean when the {o} starts to {a}",
                    "my {o} seems to {a} all the time, what is the reason",
                ),
                (
                    "scratch|itch",
                    "refuse food|reject its food",
                    "hide|stay in a corner",
                    "sleep so much|doze all day",
                ),
            ),
            Intent(
                (
                    "how do I stop it when my {o} begins to {a}",
                    "what can I do against a {o} that tends to {a}",
                    "which remedy helps so that my {o} does not {a}",
                ),
                ("scratch|itch", "refuse food|reject its food", "hide|stay in a corner"),
            ),
            Intent(
                (
                    "what does it cost [a month|every month] to keep a {o}",
                    "is owning a {o} expensive",
                    "how much money should I plan for my {o}",
                ),
            ),
            Intent(
                (
                    "can a {o} live together with a {a}",
                    "will my {o} get along with our new {a}",
                    "how do I introduce the {o} to a {a}",
                ),
                ("toddler|small child", "second pet of its kind|companion"),
            ),
            Intent(
                (
                    "who looks after my {o} while I am on holiday",
                    "I am going away, may the {o} stay alone for days",
                    "is a pet hotel fine for a {o} or better a sitter",
                ),
            ),
        ),
    ),
    Family(
        "health",
        (
            "back|spine",
            "left knee",
            "throat",
            "stomach|belly",
            "right shoulder",
            "neck",
            "lower jaw|jaw",
            "ankle",
            "wrist",
            "chest",
            "big toe",
            "left eye",
            "right ear",
            "scalp",
            "hip",
            "elbow",
        ),
        (
            Intent(
                (
                    "what causes {a} in the {o}",
                    "where does {a} in my {o} come from",
                    "I noticed {a} around my {o}, what could be behind it",
                    "for which reasons do people get {a} in the {o}",
                ),
                ("pain|aching", "itching|a constant itch", "numbness|no feeling", "swelling|a swollen spot"),
            ),
            Intent(
                (
                    "how do I [treat|cure] {a} in the {o}",
                    "what relieves {a} in my {o}",
                    "which home remedy is good against {a} around the {o}",
                    "I suffer from {a} in my {o}, what would help",
                ),
                ("pain|aching", "itching|a constant itch", "numbness|no feeling", "swelling|a swollen spot"),
            ),
            Intent(
                (
                    "is it normal that my {o} hurts {a} exercise",
                    "my {o} feels sore {a} a workout, should I rest",
                    "I go running and the {o} aches {a} my run, is that bad",
                ),
                ("before|ahead of", "during|in the middle of", "after|following"),
            ),
            Intent(
                (
                    "which kind of doctor do I see for my {o}",
                    "what specialist looks at a problem with the {o}",
                    "whom should I make an appointment with about my {o}",
                ),
            ),
            Intent(
                (
                    "what happens during surgery on the {o}",
                    "they want to operate on my {o}, what should I expect",
                    "how is an operation of the {o} done",
                ),
            ),
        ),
    ),
    Family(
        "medicine",
        (
            "ibuprofen",
            "aspirin",
            "antibiotics",
            "sleeping pills",
            "cough syrup",
            "insulin",
            "allergy tablets|antihistamines",
            "vitamin D",
            "iron tablets|iron supplements",
            "blood thinners",
            "eye drops",
            "cortisone cream|hydrocortisone",
            "the birth control pill|the contraceptive pill",
            "nose spray|nasal spray",
            "magnesium",
            "antidepressants",
        ),
        (
            Intent(
                (
                    "can I take {o} [together with|along with] {a}",
                    "do {a} and {o} go together",
                    "I use {o} daily, is {a} still allowed",
                    "is mixing {a} with {o} risky",
                ),
                ("alcohol|a glass of wine", "coffee|caffeine", "painkillers|pain medication", "milk|dairy"),
            ),
            Intent(
                (
                    "should {o} be taken {a} meals",
                    "is it better to use {o} {a} eating",
                    "my doctor forgot to say whether to take {o} {a} food.",
                ),
                ("before|ahead of", "after|following"),
            ),
            Intent(
                (
                    "I {a} of {o}, what now",
                    "what should one do who {a} of {o}",
                    "yesterday I {a} of {o}, is that dangerous",
                ),
                ("forgot a dose|missed a dose", "took a double dose|took twice the dose"),
            ),
            Intent(
                (
                    "what are the side effects of {o}",
                    "which unwanted reactions can {o} bring",
                    "can {o} make people tired or dizzy",
                ),
            ),
            Intent(
                (
                    "how safe would {o} be for {a}",
                    "may {a} use {o}",
                    "are there risks in {o} with {a}",
                ),
                ("pregnant women|a pregnant woman", "children|kids", "people over eighty|very old people"),
            ),
            Intent(
                (
                    "how should I store {o}",
                    "must {o} be kept in the fridge",
                    "can I still use {o} past the date",
                ),
            ),
        ),
    ),
    Family(
        "home repair",
        (
            "kitchen sink|kitchen basin",
            "toilet",
            "bathroom tiles",
            "wooden floor|parquet",
            "front door|entrance door",
            "bedroom window",
            "garage roof",
            "staircase|stairs",
            "garden fence",
            "shower",
            "fireplace|chimney",
            "living room wall",
            "cellar|basement",
            "balcony railing",
            "radiator|heater",
            "ceiling",
        ),
        (
            Intent(
                (
                    "how do I {a} the {o} on my own",
                    "what tools do I want to {a} the {o}",
                    "can an amateur {a} the {o} or is that a job for a pro",
                    "I plan to {a} our {o}, where do I start",
                ),
                (
                    "paint|give a new colour to",
                    "seal|waterproof",
                    "remove|tear out",
                    "insulate|keep the cold out of",
                ),
            ),
            Intent(
                (
                    "what does it cost to {a} the {o}",
                    "how expensive is a firm that will {a} our {o}",
                    "we got an offer to {a} the {o}, what is a fair price",
                ),
                ("paint|give a new colour to", "seal|waterproof", "remove|tear out"),
            ),
            Intent(
                (
                    "why is there {a} on the {o}",
                    "what is the cause of {a} at our {o}",
                    "the {o} shows {a}, where is that from",
                ),
                ("mould|black mold", "a crack|a long split", "water|a wet patch"),
            ),
            Intent(
                (
                    "how do I remove {a} from the {o}",
                    "which product is best against {a} on our {o}",
                    "I am sick of {a} at the {o}, how does one fix it",
                ),
                ("mould|black mold", "a crack|a long split", "water|a wet patch"),
            ),
        ),
    ),
    Family(
        "cleaning",
        (
            "red wine",
            "coffee",
            "blood",
            "candle wax",
            "ink|ballpoint pen",
            "grass",
            "chocolate",
            "ketchup|tomato sauce",
            "chewing gum",
            "engine oil|motor oil",
            "lipstick",
            "glue|superglue",
            "mud",
            "curry|turmeric",
            "sweat",
            "nail polish|nail varnish",
        ),
        (
            Intent(
                (
                    "how do I get {o} out of {a}",
                    "what removes a {o} stain from {a}",
                    "there is {o} on {a}, can it be saved",
                    "which trick works on {a} that got {o} on it",
                ),
                (
                    "a white shirt|my white blouse",
                    "the carpet|a rug",
                    "a leather sofa|the leather couch",
                    "jeans|denim",
                    "a wooden table|a table made of wood",
                    "the car seat|car upholstery",
                ),
            ),
            Intent(
                (
                    "should I use {a} on {o} marks",
                    "does {a} make a {o} stain worse",
                    "people say {a} is good on {o}, is that right",
                ),
                ("cold water|ice water", "hot water|boiling water", "bleach|chlorine", "salt|table salt"),
            ),
            Intent(
                (
                    "does [old|dried] {o} ever come out in the wash",
                    "the {o} has dried in for weeks, is it hopeless",
                    "is there a chance against a {o} spot that is months old",
                ),
            ),
        ),
    ),
)
