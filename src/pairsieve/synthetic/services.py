"""What do people ask offices, shops and carriers? Families of money, travel, law, school and work."""

from __future__ import annotations

from pairsieve.synthetic.grammar import Family, Intent

SERVICES = (
    Family(
        "banking",
        (
            "savings account|deposit account",
            "checking account|current account",
            "joint account",
            "credit card",
            "debit card|bank card",
            "mortgage|home loan",
            "car loan|auto loan",
            "student loan",
            "brokerage account|trading account",
            "business account|company account",
            "prepaid card",
            "overdraft|overdraft facility",
            "pension account|retirement account",
            "fixed-term deposit|certificate of deposit",
            "children's account|kids' account",
            "safe deposit box",
        ),
        (
            Intent(
                (
                    "which documents [do I need|are required] to {a} my {o}",
                    "what paperwork will the bank want to see if I {a} my {o}",
                    "do I have to bring an ID and forms when I {a} my {o}",
                    "I want to {a} my {o}, what should I have in hand",
                ),
                ("open|set up", "close|get rid of", "freeze|block", "transfer|relocate", "renew|extend"),
            ),
            Intent(
                (
                    "how [much|big] is the {a} on my {o}",
                    "can somebody tell me what {a} I pay for my {o}",
                    "what does my bank take as {a} with the {o}",
                    "I was billed a {a} on my {o}, what is the usual amount",
                ),
                (
                    "monthly fee|maintenance charge",
                    "late payment penalty|late fee",
                    "fee for leaving early|exit fee",
                ),
            ),
            Intent(
                (
                    "can I {a} the limit of my {o} [online|in the app]",
                    "is there a way to {a} how much I may use on my {o}",
                    "my {o} has a cap and I would like to {a} it, how",
                    "what must I do so that the bank will {a} the ceiling on the {o}",
                ),
                ("raise|increase", "lower|reduce"),
            ),
            Intent(
                (
                    "why was my {o} [refused|declined]",
                    "the bank turned down my {o}, what could the reason be",
                    "what makes a bank say no to my {o}",
                    "my {o} application got rejected and nobody explains it.",
                ),
            ),
            Intent(
                (
                    "how do I [add|put] my {a} on the {o}",
                    "is it possible for my {a} to share my {o}",
                    "I would like the {o} in two names, mine and my {a}.",
                    "what steps give a {a} access to my {o}",
                ),
                ("spouse|partner", "business partner|co-founder", "teenage child|teenager"),
            ),
        ),
    ),
    Family(
        "money transfers",
        (
            "savings to checking",
            "checking to savings",
            "checking to my credit card",
            "my credit card to checking",
            "euros to dollars",
            "dollars to euros",
            "my wallet app to the bank",
            "the bank to my wallet app",
            "my business account to my personal one",
            "my personal account to the business one",
            "pounds to yen",
            "yen to pounds",
            "a gift card to my balance",
            "my balance to a gift card",
        ),
        (
            Intent(
                (
                    "how do I {a} from {o}",
                    "I am looking for the button to {a} from {o}.",
                    "what are the steps if I want to {a} going from {o}",
                    "is there a guide that explains how to {a}, {o}",
                ),
                (
                    "move money|transfer funds",
                    "schedule a monthly transfer|set up a standing order",
                    "cancel a transfer|stop a payment",
                    "undo a mistaken transfer|get a wrong payment back",
                ),
            ),
            Intent(
                (
                    "what is the {a} way to shift money from {o}",
                    "going from {o} with my cash, which option is {a}",
                    "which service is {a} when sending funds from {o}",
                    "I need to get money from {o}, what would be {a}",
                ),
                ("cheapest|least expensive", "fastest|quickest", "safest|most secure"),
            ),
            Intent(
                (
                    "how long does money need to get from {o}",
                    "when will the funds arrive if I send them from {o}",
                    "my transfer from {o} is not there yet, how many days is normal",
                    "does it take days to go from {o} or is it instant",
                ),
            ),
            Intent(
                (
                    "what is the {a} if I send money from {o}",
                    "is there a {a} for a single transfer from {o}",
                    "my bank mentions a {a} for payments from {o}, how much is it",
                ),
                ("maximum|upper limit", "minimum|lower limit"),
            ),
        ),
    ),
    Family(
        "travel",
        (
            "flight|plane ticket",
            "train ticket|rail ticket",
            "hotel room|hotel booking",
            "rental car|hire car",
            "cruise|boat trip",
            "bus ticket|coach ticket",
            "holiday flat|vacation apartment",
            "guided tour|tour with a guide",
            "ferry crossing|ferry ticket",
            "travel visa|tourist visa",
            "camping pitch|campsite spot",
            "museum pass",
            "ski pass|lift pass",
            "airport lounge visit",
            "night train berth|sleeper cabin",
            "theme park ticket",
        ),
        (
            Intent(
                (
                    "can I {a} my {o} [free of charge|without a fee]",
                    "I have to {a} the {o}, will that cost me anything",
                    "what happens with the price if I {a} my {o}",
                    "is there a penalty should I {a} the {o} I paid for",
                ),
                (
                    "cancel|call off",
                    "rebook|move to another day",
                    "upgrade|switch to a better class of",
                    "give away|pass on to a friend",
                ),
            ),
            Intent(
                (
                    "where do I find the {a} {o}",
                    "which website is good for the {a} {o}",
                    "I am hunting for the {a} {o}, any recommendations",
                    "who sells the {a} {o} these days",
                ),
                ("cheapest|lowest priced", "most comfortable|nicest", "most flexible|easiest to change"),
            ),
            Intent(
                (
                    "how [early|far ahead] should I book my {o}",
                    "when is the best moment to reserve the {o}",
                    "is it too late to get my {o} at the last minute",
                    "does waiting make the {o} dearer or should I buy now",
                ),
            ),
            Intent(
                (
                    "may I bring {a} along with my {o}",
                    "are there rules on {a} for the {o} I booked",
                    "I would be taking {a}, does my {o} allow that",
                    "do I pay extra for {a} on my {o}",
                ),
                ("my dog|a dog", "a baby|my infant", "a second suitcase|one more bag", "a bicycle|my bike"),
            ),
            Intent(
                (
                    "the company [cancelled|scrapped] my {o}, do I get a refund",
                    "how can I claim my money back for the {o} they called off",
                    "my {o} never took place, who pays me back",
                ),
            ),
        ),
    ),
    Family(
        "law",
        (
            "landlord|landlady",
            "tenant|renter",
            "neighbour|next-door neighbour",
            "employer|boss",
            "builder|contractor",
            "ex-husband|former husband",
            "insurance company|insurer",
            "car dealer|dealership",
            "business partner|co-owner",
            "online shop|web store",
            "airline",
            "phone company|phone carrier",
            "housing association|homeowners association",
            "gym|fitness club",
            "moving company|movers",
            "bank",
        ),
        (
            Intent(
                (
                    "can I sue my {o} over {a}",
                    "what are my rights against the {o} in a case of {a}",
                    "do I need a lawyer because of {a} by my {o}",
                    "my {o} is responsible for {a}, what legal steps are open to me",
                ),
                (
                    "a broken contract|breach of contract",
                    "property damage|damaged belongings",
                    "unpaid money|a debt",
                    "harassment|threats",
                    "leaked private data|a privacy violation",
                ),
            ),
            Intent(
                (
                    "how long do I have {a} to answer a letter from my {o}",
                    "my {o} wrote to me, what is the deadline for a reply {a}",
                    "is there a time limit to respond to the {o} {a}",
                ),
                ("before a court date|ahead of the hearing", "after a court date|following the hearing"),
            ),
            Intent(
                (
                    "who pays the lawyers if I {a} in a dispute with my {o}",
                    "should I {a} in court with my {o}, who covers the costs",
                    "will I bear the legal bill when I {a} in the case with the {o}",
                ),
                ("win|succeed", "lose|fail", "settle|reach a settlement"),
            ),
            Intent(
                (
                    "how do I [end|terminate] my agreement with the {o}",
                    "what should a letter say to get out of a contract with my {o}",
                    "I want to break off the deal I signed with my {o}.",
                    "how much notice must I give to end things with my {o}",
                ),
            ),
        ),
    ),
    Family(
        "school",
        (
            "algebra",
            "geometry",
            "chemistry",
            "physics",
            "biology",
            "world history|history",
            "Spanish",
            "French",
            "economics",
            "statistics",
            "geography",
            "philosophy",
            "music theory",
            "English literature",
            "computer science|informatics",
            "psychology",
        ),
        (
            Intent(
                (
                    "how do I [study|prepare] for a {a} in {o}",
                    "what is a sensible plan when a {a} in {o} is coming up",
                    "my {o} {a} is near and I have not opened a book, where to begin",
                    "which tricks help one pass a {o} {a}",
                ),
                (
                    "final exam|end of year test",
                    "oral exam|spoken test",
                    "weekly quiz|short quiz",
                    "retake|repeat exam",
                ),
            ),
            Intent(
                (
                    "which {a} would you recommend for learning {o}",
                    "I would like a good {a} about {o}.",
                    "is there any {a} on {o} that is worth the money",
                    "looking for a {o} {a} that explains things well.",
                ),
                (
                    "textbook|course book",
                    "video course|online class",
                    "phone app|mobile app",
                    "private tutor|personal teacher",
                ),
            ),
            Intent(
                (
                    "why is {o} so [hard|difficult] for most pupils",
                    "what makes people struggle with {o}",
                    "everybody in class finds {o} tough, for what reason",
                ),
            ),
            Intent(
                (
                    "what jobs can you get with a degree in {o}",
                    "where do people work after studying {o}",
                    "is there a career in {o} and what does it look like",
                    "I graduated in {o}, which employers hire someone like me",
                ),
            ),
            Intent(
                (
                    "how can I {a} the {o} class",
                    "is it allowed to {a} {o} this semester",
                    "what form do I fill in to {a} {o}",
                    "I made up my mind to {a} {o}, whom do I tell",
                ),
                ("drop|quit", "join|sign up for", "repeat|take again"),
            ),
        ),
    ),
    Family(
        "work",
        (
            "nurse",
            "teacher",
            "software developer|programmer",
            "electrician",
            "truck driver|lorry driver",
            "accountant|bookkeeper",
            "waiter|server in a restaurant",
            "graphic designer",
            "sales clerk|shop assistant",
            "lawyer|attorney",
            "carpenter|woodworker",
            "translator|interpreter",
            "hairdresser|hair stylist",
            "police officer|cop",
            "farm worker|farmhand",
            "project manager",
        ),
        (
            Intent(
                (
                    "how much does a {a} {o} earn",
                    "what salary can somebody expect as a {a} {o}",
                    "is the pay of a {o} who is {a} any good",
                    "I might start as a {a} {o}, what would my wage be",
                ),
                (
                    "newly qualified|inexperienced",
                    "very experienced|senior",
                    "part-time|half-time",
                    "self-employed|freelance",
                ),
            ),
            Intent(
                (
                    "what should I {a} at a job interview as a {o}",
                    "they invited me to talk about a post as a {o}, what do I {a}",
                    "which things to {a} when applying in person as a {o}",
                ),
                ("wear|put on", "ask|bring up", "avoid saying|never mention"),
            ),
            Intent(
                (
                    "how do I become a {o} [without a degree|with no diploma]",
                    "can somebody who never studied work as a {o}",
                    "is there a path into the job of a {o} for people lacking formal training",
                ),
            ),
            Intent(
                (
                    "how does a {o} write a letter to {a}",
                    "I work as a {o} and want to {a}, how do I put it in words",
                    "as a {o}, what is a polite way to {a}",
                    "is there a sample text with which a {o} can {a}",
                ),
                ("resign|quit the job", "ask for a raise|request more pay", "ask for days off|request leave"),
            ),
            Intent(
                (
                    "is being a {o} [bad for your health|physically exhausting]",
                    "what does the work of a {o} do to your body over the years",
                    "do people in the {o} trade burn out or get sick often",
                ),
            ),
        ),
    ),
    Family(
        "orders and deliveries",
        (
            "sofa|couch",
            "mattress",
            "wedding dress|bridal gown",
            "winter coat|warm jacket",
            "pair of running shoes|pair of jogging shoes",
            "coffee machine|espresso maker",
            "television|TV set",
            "bookshelf|bookcase",
            "box of contact lenses",
            "birthday cake",
            "wine box|case of wine",
            "desk chair|office chair",
            "pair of headphones|headset",
            "board game",
            "set of curtains|set of drapes",
            "kids' bed|bed for my child",
        ),
        (
            Intent(
                (
                    "my {o} arrived {a}, what can I do",
                    "the {o} you sent me came {a}.",
                    "what are my options when the {o} I ordered turns up {a}",
                    "I opened the parcel and found the {o} {a}, who helps",
                ),
                (
                    "damaged|with scratches and dents",
                    "two weeks late|long after the promised date",
                    "in the wrong colour|in another colour than ordered",
                    "with parts missing|incomplete",
                ),
            ),
            Intent(
                (
                    "can I still {a} for the {o} I ordered",
                    "I bought the {o} yesterday, is it too late to {a}",
                    "where on the site do I {a} on my {o} order",
                ),
                (
                    "change the address|pick another address",
                    "change the payment|pay another way",
                    "add a gift note|include a card",
                    "use a discount code|enter a voucher",
                ),
            ),
            Intent(
                (
                    "how do I [return|send back] the {o}",
                    "I do not like the {o} and want my money back.",
                    "what is the refund policy on the {o}",
                    "who pays postage if the {o} does not suit me",
                ),
            ),
            Intent(
                (
                    "where is my {o} [right now|at the moment]",
                    "the tracking for my {o} has not moved in days.",
                    "is there any news about the shipment with my {o}",
                    "has the {o} I paid for left the warehouse yet",
                ),
            ),
            Intent(
                (
                    "is the {o} also sold in a {a} version",
                    "do you stock the {o} in something {a}",
                    "I like the {o} but need it {a}, does that exist",
                ),
                ("smaller|more compact", "larger|bigger", "cheaper|less expensive"),
            ),
        ),
    ),
)
