"""The local REST catalog as a setting of a world."""

from __future__ import annotations

from frazil.local.rest import CLIENT_ID, CLIENT_SECRET
from frazil.model.secret import Secret, SettingValue
from frazil.model.settings import CatalogSettings, RestSettings

CLIENT: dict[str, SettingValue] = {
    "client_id": Secret(CLIENT_ID),
    "client_secret": Secret(CLIENT_SECRET),
    "scope": "catalog",
}


def rest_catalog(url: str, **authentication: SettingValue) -> CatalogSettings:
    """A catalog at this address, with the local client's id and secret unless something else is given."""
    return CatalogSettings("rest", "", rest=RestSettings(url, authentication or CLIENT))
