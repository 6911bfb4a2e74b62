// Package headers parses the headers with which providers report their limits and the time until
// a call may be sent again. It is for package llmhttp, whose Transport passes the limits to a
// limiter and whose Classify also finds such headers inside bodies.
//
// Headers come from outside: values that are out of range are ignored, and no more than a few
// short values of each are read.
package headers

import (
	"math"
	"net/http"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

const (
	// maxValue is the length in bytes up to which a header's value is read.
	maxValue = 1024
	// maxValues bounds the values read per header.
	maxValues = 16

	// minuteReset is the longest reset of a limit per minute: a minute, and some seconds for
	// latency and for clocks that differ.
	minuteReset = 65 * time.Second

	// azureSlice is the longest slice of a minute for which Azure limits requests.
	azureSlice = 10 * time.Second

	// anthropicRounding is the multiple to which Anthropic rounds remaining tokens.
	anthropicRounding = 1000
)

// The limits that headers report, by the families of header names.
const (
	xRequests = iota // X-Ratelimit-*-Requests, of a minute or a day
	xTokens
	xProjectTokens
	xRequestsMinute
	xRequestsDay
	xTokensMinute
	xTokensDay
	xBare // X-Ratelimit-*
	anthropicRequests
	anthropicTokens
	anthropicInput
	anthropicOutput
	ietfBare // Ratelimit-*, of drafts before the eighth
	limitFamilies
)

// limitHeaders is the headers of an answer that report limits.
type limitHeaders struct {
	of              [limitFamilies]limitFields
	policy, current []string // Ratelimit-Policy and Ratelimit
	groq, azure     bool     // the provider is known by its headers or host
	found           bool     // any header that reports a limit
}

// limitFields is the values of the headers that report one limit.
type limitFields struct{ limit, remaining, reset []string }

// Limits returns the limits of a model that the headers of an answer report at the time now. host
// is the host of the request, with or without a port, which distinguishes some dialects. Values
// out of range are left out. It is safe for concurrent use.
func Limits(h http.Header, host string, now time.Time) ratelimit.ProviderLimits {
	var l ratelimit.ProviderLimits
	var s limitHeaders
	s.scan(h)
	if !s.found {
		return l
	}
	s.groq = s.groq || IsHost(host, "groq.com")
	s.azure = s.azure || IsHost(host, "azure.com") || IsHost(host, "azure-api.net")

	s.requests(&l, now)
	s.add(&l.RPM, xRequestsMinute, now)
	s.add(&l.RPD, xRequestsDay, now)
	s.add(&l.TPM, xTokens, now)
	s.add(&l.TPM, xProjectTokens, now)
	s.add(&l.TPM, xTokensMinute, now)
	s.add(&l.TPD, xTokensDay, now)
	s.anthropic(&l, now)
	s.bare(&l, now)
	s.ietf(&l, now)
	return l
}

// scan visits each header once, which is quicker than looking each name up.
func (s *limitHeaders) scan(h http.Header) {
	for key, values := range h {
		switch {
		case len(key) < len("X-Groq-"):
		case key[0] == 'X':
			if rest, ok := strings.CutPrefix(key, "X-Ratelimit-"); ok {
				part, name, _ := strings.Cut(rest, "-")
				s.put(xFamily(name), part, values)
			} else if strings.HasPrefix(key, "X-Groq-") {
				s.groq = true
			} else if key == "X-Ms-Region" {
				s.azure = true
			}
		case key[0] == 'A':
			if rest, ok := strings.CutPrefix(key, "Anthropic-Ratelimit-"); ok {
				if i := strings.LastIndexByte(rest, '-'); i > 0 {
					s.put(anthropicFamily(rest[:i]), rest[i+1:], values)
				}
			} else if key == "Azureml-Model-Session" || key == "Apim-Request-Id" {
				s.azure = true
			}
		case key[0] == 'R':
			if rest, ok := strings.CutPrefix(key, "Ratelimit"); !ok {
				continue
			} else if rest == "" {
				s.current, s.found = readable(values), true
			} else if rest == "-Policy" {
				s.policy, s.found = readable(values), true
			} else if rest[0] == '-' {
				s.put(ietfBare, rest[1:], values)
			}
		}
	}
}

// put stores the values of a header of a family. A negative family is not stored.
func (s *limitHeaders) put(family int, part string, values []string) {
	if family < 0 {
		return
	}
	f := &s.of[family]
	switch part {
	case "Limit":
		f.limit = readable(values)
	case "Remaining":
		f.remaining = readable(values)
	case "Reset":
		f.reset = readable(values)
	default:
		return
	}
	s.found = true
}

// xFamily returns the family of X-Ratelimit-*-name; -1 if it is unknown.
func xFamily(name string) int {
	switch name {
	case "":
		return xBare
	case "Requests":
		return xRequests
	case "Tokens":
		return xTokens
	case "Project-Tokens":
		return xProjectTokens
	case "Requests-Minute", "Req-Minute":
		return xRequestsMinute
	case "Requests-Day", "Req-Day":
		return xRequestsDay
	case "Tokens-Minute":
		return xTokensMinute
	case "Tokens-Day":
		return xTokensDay
	}
	return -1
}

// anthropicFamily returns the family of Anthropic-Ratelimit-name-*; -1 if it is unknown.
func anthropicFamily(name string) int {
	switch name {
	case "Requests":
		return anthropicRequests
	case "Tokens":
		return anthropicTokens
	case "Input-Tokens":
		return anthropicInput
	case "Output-Tokens":
		return anthropicOutput
	}
	return -1
}

// requests reads X-Ratelimit-*-Requests, which limits the minute at some providers and the day at
// others.
func (s *limitHeaders) requests(l *ratelimit.ProviderLimits, now time.Time) {
	r, ok := s.of[xRequests].read(now)
	switch {
	case !ok:
	case s.azure:
		// The limit is that of a slice of 1 or 10 seconds, and nothing says which.
		if r.HasRemaining {
			if r.Reset == 0 || r.Reset > azureSlice {
				r.Reset = azureSlice
			}
			r.Limit = 0
			Tighten(&l.RPM, r)
		}
	case s.groq || r.Reset > minuteReset || refillsInADay(r):
		Tighten(&l.RPD, r)
	default:
		Tighten(&l.RPM, r)
	}
}

// refillsInADay reports whether the used part of a limit refills at the rate of the whole limit
// per day, within a tenth.
func refillsInADay(r ratelimit.ProviderLimit) bool {
	if !r.HasRemaining || r.Remaining >= r.Limit {
		return false
	}
	whole := r.Reset.Seconds() * float64(r.Limit) / float64(r.Limit-r.Remaining)
	return math.Abs(whole-86400) <= 8640
}

// add tightens a limit by the headers of a family.
func (s *limitHeaders) add(to *ratelimit.ProviderLimit, family int, now time.Time) {
	if r, ok := s.of[family].read(now); ok {
		Tighten(to, r)
	}
}

// anthropic reads Anthropic-Ratelimit-*.
func (s *limitHeaders) anthropic(l *ratelimit.ProviderLimits, now time.Time) {
	s.add(&l.RPM, anthropicRequests, now)
	in, hasIn := s.of[anthropicInput].read(now)
	out, hasOut := s.of[anthropicOutput].read(now)
	if hasIn {
		Tighten(&l.ITPM, rounded(in))
	}
	if hasOut {
		Tighten(&l.OTPM, rounded(out))
	}
	if all, ok := s.of[anthropicTokens].read(now); ok && all.HasRemaining && !hasIn && !hasOut {
		// The header reports whichever of several limits is the most restrictive.
		all.Limit = 0
		Tighten(&l.TPM, rounded(all))
	}
}

// rounded marks the remaining tokens of a limit as rounded.
func rounded(r ratelimit.ProviderLimit) ratelimit.ProviderLimit {
	if r.HasRemaining {
		r.Rounding = anthropicRounding
	}
	return r
}

// bare reads X-Ratelimit-Remaining and -Reset. Only the time until the reset hints at the window,
// which is too little to learn a limit from.
func (s *limitHeaders) bare(l *ratelimit.ProviderLimits, now time.Time) {
	r, ok := s.of[xBare].read(now)
	if !ok || !r.HasRemaining || r.Reset == 0 {
		return
	}
	r.Limit = 0
	if r.Reset <= minuteReset {
		Tighten(&l.RPM, r)
	} else {
		Tighten(&l.RPD, r)
	}
}

// read returns the limit that the headers of one family report, if they report a valid one. A
// limit of zero would let no call pass, so it is ignored with its remaining count; so is a limit
// that resets only after MaxReset.
func (f *limitFields) read(now time.Time) (r ratelimit.ProviderLimit, ok bool) {
	if f.limit == nil && f.remaining == nil {
		return r, false
	}
	limit, hasLimit := least(f.limit)
	if hasLimit && limit == 0 {
		return r, false
	}
	r.Limit = limit
	r.Remaining, r.HasRemaining = least(f.remaining)
	for _, text := range f.reset {
		if d, valid := timeTo(text, now); valid && d > MaxReset {
			return ratelimit.ProviderLimit{}, false
		} else if valid {
			r.Reset = max(r.Reset, d)
		}
	}
	if !hasLimit && !r.HasRemaining {
		return ratelimit.ProviderLimit{}, false
	}
	return r, true
}

// Tighten adds to a limit another report of it: of two figures the tighter one counts, and of two
// resets of the same remaining count the later one.
func Tighten(to *ratelimit.ProviderLimit, r ratelimit.ProviderLimit) {
	if r.Limit > 0 && (to.Limit == 0 || r.Limit < to.Limit) {
		to.Limit = r.Limit
	}
	switch {
	case r.HasRemaining && (!to.HasRemaining || r.Remaining < to.Remaining):
		to.Remaining, to.HasRemaining, to.Reset, to.Rounding = r.Remaining, true, r.Reset, r.Rounding
	case r.HasRemaining == to.HasRemaining && r.Remaining == to.Remaining:
		to.Reset = max(to.Reset, r.Reset)
	}
}
