// Package headerstest writes headers and limits as text for the tables of tests. The tests of
// llmhttp and of its header parsers use it; no program does.
package headerstest

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// Now is the time at which the answers of the tests arrive, at five in the morning in Los Angeles.
var Now = time.Date(2026, time.October, 4, 12, 0, 0, 0, time.UTC)

// Parse returns the headers in text, one a line as "Name: value". Other lines are skipped.
func Parse(text string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			h.Add(key, strings.TrimSpace(value))
		}
	}
	return h
}

// Format returns limits as text: of each that is not zero the name, limit, remaining count with its
// rounding, and reset, as in "RPM 60 59 1s" or "ITPM - 8000/1000 -".
func Format(l ratelimit.ProviderLimits) string {
	var all []string
	for _, one := range []struct {
		name string
		ratelimit.ProviderLimit
	}{
		{"RPM", l.RPM}, {"TPM", l.TPM}, {"ITPM", l.ITPM}, {"OTPM", l.OTPM}, {"RPD", l.RPD},
		{"TPD", l.TPD},
	} {
		if one.ProviderLimit == (ratelimit.ProviderLimit{}) {
			continue
		}
		limit, remaining, reset := "-", "-", "-"
		if one.Limit != 0 {
			limit = strconv.Itoa(one.Limit)
		}
		if one.HasRemaining {
			remaining = strconv.Itoa(one.Remaining)
		}
		if one.Rounding != 0 {
			remaining += "/" + strconv.Itoa(one.Rounding)
		}
		if one.Reset != 0 {
			reset = one.Reset.String()
		}
		all = append(all, strings.Join([]string{one.name, limit, remaining, reset}, " "))
	}
	return strings.Join(all, ", ")
}
