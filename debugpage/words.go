package debugpage

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit"
)

// Names are cut in the middle to so many characters.
const maxName, nameEnd = 96, 24

// nameText returns a model name for the eyes: quoted if it has characters that cannot be seen or
// turn the text around, and cut if it is long.
func nameText(name string) string {
	odd := !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	if odd || strings.TrimSpace(name) != name || name == "" {
		name = strconv.Quote(name)
	}
	if utf8.RuneCountInString(name) <= maxName {
		return name
	}
	runes := []rune(name)
	return string(runes[:maxName-nameEnd]) + "…" + string(runes[len(runes)-nameEnd:])
}

// maxText bounds what else is shown in one piece, in bytes: it may have the name of a model in it.
const maxText = 1000

func cut(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// number returns a number with its digits in groups of three.
func number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// counted returns a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}

// length returns a duration in its two largest units. page.js does the same.
func length(d time.Duration) string {
	switch s := int(max(0, d) / time.Second); {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
	default:
		return counted(s/(24*3600), "day")
	}
}

// limitWords are what a limit counts, by its key. Other limits are shown by their keys.
var limitWords = map[string]string{
	"max_in_flight": "open calls",
	"max_rpm":       "requests / min",
	"max_rpd":       "requests / day",
	"max_tpm":       "tokens / min",
	"max_tpd":       "tokens / day",
	"max_itpm":      "input / min",
	"max_otpm":      "output / min",

	"max_tokens_per_month": "tokens / month",

	"max_spend_per_ten_minutes": "spend / 10 min",

	"max_spend_per_day":   "spend / day",
	"max_spend_per_month": "spend / month",

	foundInFlight: "slots found",
	foundRPM:      "rate found",
}

func limitText(key string) string {
	if words, found := limitWords[key]; found {
		return words
	}
	return key
}

// originWords say where a quota or the maximum of a limit comes from.
var originWords = map[string]string{
	"program": "set by the program", "shared": "set in the store", "account": "the account's own",
	"given": "of a profile or a file", "file": "of a file", "profile": "of a profile",
	"learned": "reported by the provider",
}

// stateWords are the short state of a model, by the code of its next decision. Other codes are
// shown as they are.
var stateWords = map[ratelimit.DecisionCode]string{
	ratelimit.DecisionAllowed:       "free",
	ratelimit.DecisionUnlimited:     "unlimited",
	ratelimit.DecisionUnknownModel:  "no quota",
	ratelimit.DecisionInvalidQuota:  "invalid quota",
	ratelimit.DecisionTooManyModels: "no place",
	ratelimit.DecisionQueued:        "line",
	ratelimit.DecisionCooldown:      "cooldown",
	ratelimit.DecisionInFlightLimit: "calls at limit",
	ratelimit.DecisionRPDLimit:      "day used up",
	ratelimit.DecisionTPDLimit:      "day used up",
	ratelimit.DecisionSpendLimit:    "budget used up",
	ratelimit.DecisionMonthLimit:    "month used up",
	ratelimit.DecisionUnpriced:      "no price",
	ratelimit.DecisionRPMLimit:      "requests used up",
	ratelimit.DecisionITPMLimit:     "input used up",
	ratelimit.DecisionOTPMLimit:     "output used up",
	ratelimit.DecisionTPMLimit:      "tokens used up",
	ratelimit.DecisionStoreError:    "store down",
	ratelimit.DecisionClosed:        "closed",
}

func stateText(code ratelimit.DecisionCode) string {
	if words, found := stateWords[code]; found {
		return words
	}
	return string(code)
}

// causeWords say why a model cools down. Other causes are the program's own words.
var causeWords = map[ratelimit.Cause]string{
	ratelimit.CauseDailyQuota:  "the provider said that the quota of the day is used up",
	ratelimit.CauseRateLimited: "the provider said that its rate limit is exceeded",
	ratelimit.CauseOverloaded:  "the provider said that it is overloaded",
	ratelimit.CauseCaller:      "the program asked for it",
}

func causeText(cause ratelimit.Cause) string {
	if words, found := causeWords[cause]; found {
		return words
	}
	return string(cause)
}
