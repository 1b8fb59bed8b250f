"""The files that schemas import without a reference, as schema registries have them built in.

Google's files are those of `google.protobuf`. The others are written out here with what decides about columns: the
names, numbers and types of fields.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from importlib import import_module

_OF_GOOGLE = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip

_WRITTEN = {
    "confluent/meta.proto": """
        package confluent;
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
        message Meta {
          string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4;
        }
    """,
    "confluent/type/decimal.proto": """
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "confluent/type/variant.proto": """
        package confluent.type;
        message Variant { bytes metadata = 1; bytes value = 2; }
    """,
    "confluent/types/decimal.proto": """
        import public "confluent/type/decimal.proto";
    """,
    "google/type/calendar_period.proto": """
        package google.type;
        enum CalendarPeriod {
          CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4; QUARTER = 5; HALF = 6; YEAR = 7;
        }
    """,
    "google/type/color.proto": """
        package google.type;
        import "google/protobuf/wrappers.proto";
        message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }
    """,
    "google/type/date.proto": """
        package google.type;
        message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
    """,
    "google/type/datetime.proto": """
        package google.type;
        import "google/protobuf/duration.proto";
        message DateTime {
          int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6;
          int32 nanos = 7;
          oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; }
        }
        message TimeZone { string id = 1; string version = 2; }
    """,
    "google/type/dayofweek.proto": """
        package google.type;
        enum DayOfWeek {
          DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4; FRIDAY = 5; SATURDAY = 6;
          SUNDAY = 7;
        }
    """,
    "google/type/decimal.proto": """
        package google.type;
        message Decimal { string value = 1; }
    """,
    "google/type/expr.proto": """
        package google.type;
        message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }
    """,
    "google/type/fraction.proto": """
        package google.type;
        message Fraction { int64 numerator = 1; int64 denominator = 2; }
    """,
    "google/type/interval.proto": """
        package google.type;
        import "google/protobuf/timestamp.proto";
        message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }
    """,
    "google/type/latlng.proto": """
        package google.type;
        message LatLng { double latitude = 1; double longitude = 2; }
    """,
    "google/type/localized_text.proto": """
        package google.type;
        message LocalizedText { string text = 1; string language_code = 2; }
    """,
    "google/type/money.proto": """
        package google.type;
        message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }
    """,
    "google/type/month.proto": """
        package google.type;
        enum Month {
          MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6; JULY = 7;
          AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12;
        }
    """,
    "google/type/phone_number.proto": """
        package google.type;
        message PhoneNumber {
          message ShortCode { string region_code = 1; string number = 2; }
          oneof kind { string e164_number = 1; ShortCode short_code = 2; }
          string extension = 3;
        }
    """,
    "google/type/postal_address.proto": """
        package google.type;
        message PostalAddress {
          int32 revision = 1; string region_code = 2; string language_code = 3; string postal_code = 4;
          string sorting_code = 5; string administrative_area = 6; string locality = 7; string sublocality = 8;
          repeated string address_lines = 9; repeated string recipients = 10; string organization = 11;
        }
    """,
    "google/type/quaternion.proto": """
        package google.type;
        message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }
    """,
    "google/type/timeofday.proto": """
        package google.type;
        message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
    """,
}


def _of_google(name: str) -> str:
    """Return a file of `google.protobuf` as a serialized descriptor in base64, which registries also have."""
    module = import_module(f"google.protobuf.{name}_pb2")
    return base64.b64encode(module.DESCRIPTOR.serialized_pb).decode()


BUILT_IN: Mapping[str, str] = {
    **{name: f'syntax = "proto3"; {text}' for name, text in _WRITTEN.items()},
    **{f"google/protobuf/{name}.proto": _of_google(name) for name in _OF_GOOGLE},
}
"""Texts by the names of imports."""
