"""First packs of endpoints and files, by VoID or by sampling, for a person to edit."""

from refactx.nl2sparql.making.making import MadePack, MakeOptions, make_pack, open_file
from refactx.nl2sparql.making.survey import FoundTerm, Survey
from refactx.nl2sparql.making.surveying import survey

__all__ = ["FoundTerm", "MadePack", "MakeOptions", "Survey", "make_pack", "open_file", "survey"]
