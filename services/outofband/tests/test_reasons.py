"""Reasons of conditions, and the errors that carry them."""

from joulie_outofband.reasons import BmcError, BmcReason


def test_reasons_have_the_names_that_alerts_and_scripts_of_users_match():
    assert {each.value for each in BmcReason} == {
        # Accepted and Reachable
        *("Answers", "NeverAnswers", "InvalidAddress", "InvalidSpec", "Valid", "CredentialsMissing"),
        *("AddressNotApproved", "CertificatesNotApproved", "Unreachable", "TimedOut", "Unauthorized"),
        *("MalformedAnswer", "Refused", "Busy", "Failed", "InternalError", "LicenceMissing", "TagRefused"),
        # PowerAsDesired
        *("Unmanaged", "AsDesired", "Changing", "PowerOffNotAllowed", "NodeNotTainted", "SwitchedOn"),
        *("ResetTypeMissing", "PowerStateUnknown", "NotFollowed", "PodsOnNode"),
        *("CertificateRefused", "NotTaken"),
        # Capped
        *("NoCap", "InForce", "LowerExternalLimit", "Expired", "ExpiryUnreadable", "NoPowerLimit", "NotInWatts"),
        *("LimitExceptionPowersOff", "OutOfRange", "NotReadBack"),
        # WakeProven
        *("Woken", "BootTimedOut", "NotTried"),
    }


def test_the_message_of_an_error_is_printable_and_short():
    error = BmcError(BmcReason.BUSY, "a\x9b\x7f\r\nb", retry_after_s=3.0)
    replaced = "\N{REPLACEMENT CHARACTER}"
    assert (str(error), error.reason, error.retry_after_s) == (f"a{replaced * 2}  b", BmcReason.BUSY, 3.0)
    assert len(str(BmcError(BmcReason.BUSY, "x" * 9000))) == 500
    assert BmcError(BmcReason.BUSY, "x").retry_after_s is None
