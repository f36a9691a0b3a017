"""Claims as Wikidata has them, for published queries: the labels of ids, and triples in Turtle."""

LABELS = {
    "P17": "country", "P31": "instance of", "P36": "capital", "P39": "position held", "P47": "shares border with",
    "P57": "director", "P155": "follows", "P156": "followed by", "P161": "cast member", "P279": "subclass of",
    "P22": "father", "P25": "mother", "P26": "spouse", "P40": "child", "P577": "publication date",
    "P1082": "population", "P1449": "nickname", "P1696": "inverse property",
    "P1376": "capital of", "P2927": "water as percent of area",
    "Q5": "human", "Q30": "United States", "Q60": "New York City", "Q61": "Washington, D.C.", "Q100": "Boston",
    "Q515": "city", "Q1549591": "big city", "Q11424": "film", "Q24862": "short film", "Q1588": "Louisiana",
    "Q16": "Canada", "Q96": "Mexico", "Q23359": "Taylor Lautner", "Q160071": "Twilight", "Q143716": "Abduction",
    "Q8006": "Stanley Kubrick", "Q1": "part one", "Q2": "part two", "Q3": "part three",
    "Q11": "Eve", "Q12": "Adam", "Q13": "Abel", "Q14": "Seth",
}  # fmt: skip
CLAIMS = """
wd:Q60 wdt:P31 wd:Q1549591 ; wdt:P17 wd:Q30 ; wdt:P1082 8000000 .
wd:Q100 wdt:P31 wd:Q515 ; wdt:P17 wd:Q30 ; wdt:P1082 600000 .
wd:Q61 wdt:P31 wd:Q515 ; wdt:P17 wd:Q30 ; wdt:P1082 700000 ; wdt:P2927 10.67 ; wdt:P1376 wd:Q30 .
wd:Q1549591 wdt:P279 wd:Q515 . wd:Q24862 wdt:P279 wd:Q11424 .
wd:Q160071 wdt:P31 wd:Q11424 ; wdt:P161 wd:Q23359 ; wdt:P577 "2008-11-21T00:00:00Z"^^xsd:dateTime .
wd:Q143716 wdt:P31 wd:Q24862 ; wdt:P161 wd:Q23359 ; wdt:P577 "2011-09-23T00:00:00Z"^^xsd:dateTime .
wd:Q23359 wdt:P31 wd:Q5 ; skos:altLabel "Taylor Daniel Lautner"@en .
wd:Q30 wdt:P47 wd:Q16 , wd:Q96 ; wdt:P36 wd:Q61 . wd:Q16 wdt:P47 wd:Q30 .
wd:Q1588 wdt:P1449 "Bayou State"@en , "Pelican State"@en ; wdt:P17 wd:Q30 .
wd:P155 wdt:P1696 wd:P156 . wd:P156 wdt:P1696 wd:P155 .
wd:Q2 wdt:P155 wd:Q1 ; wdt:P156 wd:Q3 .
wd:P22 wdt:P1696 wd:P40 . wd:P25 wdt:P1696 wd:P40 . wd:P26 wdt:P1696 wd:P26 .
wd:Q13 wdt:P25 wd:Q11 ; wdt:P22 wd:Q12 . wd:Q11 wdt:P40 wd:Q14 ; wdt:P26 wd:Q12 .
wd:Q143716 wdt:P57 wd:Q8006 ; wdt:P17 wd:Q30 . wd:Q8006 schema:description "film director"@en , "Filmregisseur"@de .
"""
