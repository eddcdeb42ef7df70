"""Names of columns in other languages, word by word in English, so that one set of patterns reads them all."""

from __future__ import annotations

import re
import unicodedata

ENGLISH = {  # German, French, Spanish, Italian, Portuguese and Dutch, without accents
    "action": "massnahme aktion entscheidung decision decisao decisione accion acao azione beslissing",
    "treatment": "behandlung traitement tratamiento trattamento tratamento behandeling therapie terapia therapy",
    "drug": "medikament arznei wirkstoff medicament medicamento farmaco medicijn",
    "antibiotic": "antibiotikum antibiotika antibiotique antibiotico antibioticum",
    "dose": "dosis dosi dosage",
    "offer": "angebot offre oferta offerta aanbod rabatt remise descuento sconto desconto korting",
    "patient": "patienten patientin paciente paziente patientes pacientes pazienti",
    "customer": "kunde kunden kundin cliente clientes klant",
    "person": "personne persona pessoa persoon teilnehmer participante partecipante",
    "stay": "aufenthalt fall sejour estancia ricovero internacao opname",
    "discharge": "entlassung entlassungs entlassart entlassdatum sortie dimissione ontslag",
    "los": "liegedauer verweildauer liegetage verpleegduur degenza",
    "visit": "besuch besuchs visite visita consulta consultation bezoek termin",
    "date": "datum fecha zeitpunkt",
    "day": "tag jour dia giorno",
    "week": "woche semaine semana settimana",
    "no": "nummer numero num nummern",
    "age": "alter edad eta idade leeftijd lebensalter",
    "sex": "geschlecht sexe sexo sesso geslacht",
    "height": "grosse groesse korpergrosse taille altura altezza lengte",
    "died": "verstorben gestorben tod todesfall decede deces mort fallecido muerte fallecimiento deceduto morto morte "
    "obito overleden",
    "cost": "kosten cout couts coste costes costo costi custo custos",
    "readmitted": "wiederaufnahme wiederaufgenommen rehospitalise reingreso readmitido readmissao reinternacao "
    "riammissione heropname",
    "relapse": "ruckfall rechute recaida ricaduta terugval",
    "complication": "komplikation komplikationen complicacion complicazione complicacao complicatie",
    "churn": "gekundigt kundigung resilie baja disdetta cancelamento opgezegd opzegging",
    "revenue": "umsatz erlos ertrag ventes ventas ingresos vendite ricavi receita vendas omzet",
    "profit": "gewinn benefice beneficio utile lucro winst",
    "purchased": "gekauft kauf achete achat comprado compra acquistato acquisto comprou gekocht",
    "cured": "geheilt genesen gueri curado guarito genezen",
    "survived": "uberlebt survecu sobrevivio sopravvissuto sobreviveu overleefd",
    "success": "erfolg succes exito successo sucesso",
    "outcome": "ergebnis resultat resultado risultato uitkomst",
    "end": "ende abschluss beendet fin final fine fim einde",
    "after": "danach nachher apres despues dopo depois daarna",
}
WORDS = {word: english for english, words in ENGLISH.items() for word in words.split()}
LINKS = {"de", "do", "da", "des", "du", "del", "della", "di", "of", "the", "van", "der", "la", "le", "el", "em", "en"}
LONG = 4  # letters of a word that may be part of another


def plain_name(name: str) -> str:
    """A name as patterns see it: small letters without accents, words in English, underscores between them.

    >>> [plain_name(name) for name in ("Age (years)", "PatientenNr", "Besuchsdatum", "décédé", "Nº do paciente")]
    ['age_years', 'patient_nr', 'visit_date', 'died', 'no_patient']
    """
    apart = re.sub(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ])", "_", re.sub(r"\W+$", "", re.sub(r"\b[Nn][°º]", "No_", name.strip())))
    folded = unicodedata.normalize("NFKD", apart.lower().replace("ß", "ss"))
    letters = "".join(sign for sign in folded if not unicodedata.combining(sign))
    words = re.sub(r"\W+", "_", letters).split("_")
    linked = [word for word in words if word not in LINKS] if len(words) > 2 else words
    return re.sub("__+", "_", "_".join(_english(word) for word in linked))


def _english(word: str) -> str:
    """A word or a compound of two, in English where they are known."""
    cuts = range(LONG, len(word) - LONG + 1)
    both = (f"{WORDS[word[:k]]}_{WORDS[word[k:]]}" for k in cuts if word[:k] in WORDS and word[k:] in WORDS)
    return WORDS.get(word) or next(both, word)
