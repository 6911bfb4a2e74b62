package llmhttp

import (
	"math"
	"net/http"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

const (
	// mostHeader is how long a value of a header may be to be read.
	mostHeader = 1024
	// mostValues is how many values of one header are read.
	mostValues = 16

	// minuteReset is the longest time until a limit of the minute is there again, with
	// some seconds for the way and for clocks that differ.
	minuteReset = 65 * time.Second

	// azureSlice is the longest slice of a minute for which Azure limits the requests.
	azureSlice = 10 * time.Second

	// anthropicRounding is what Anthropic rounds the tokens that are left to.
	anthropicRounding = 1000
)

// The limits that headers tell of, by the families of their names.
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
	ietfBare // Ratelimit-*, as drafts before the eighth had them
	limitFamilies
)

// limitHeaders is what an answer has of headers that tell of limits.
type limitHeaders struct {
	of              [limitFamilies]limitFields
	policy, current []string // Ratelimit-Policy and Ratelimit
	groq, azure     bool
	found           bool // any but of, for those
}

// limitFields are the values of the headers that tell of one limit.
type limitFields struct{ limit, remaining, reset []string }

// limitsOf returns what the headers of an answer say of the limits of a model. host is
// the one that was asked, as it tells some dialects apart. What cannot be is left out.
func limitsOf(h http.Header, host string, now time.Time) ratelimit.ProviderLimits {
	var l ratelimit.ProviderLimits
	var s limitHeaders
	s.scan(h)
	if !s.found {
		return l
	}
	s.groq = s.groq || hostIn(host, "groq.com")
	s.azure = s.azure || hostIn(host, "azure.com") || hostIn(host, "azure-api.net")

	s.requests(&l, now)
	s.learn(&l.RPM, xRequestsMinute, now)
	s.learn(&l.RPD, xRequestsDay, now)
	s.learn(&l.TPM, xTokens, now)
	s.learn(&l.TPM, xProjectTokens, now)
	s.learn(&l.TPM, xTokensMinute, now)
	s.learn(&l.TPD, xTokensDay, now)
	s.anthropic(&l, now)
	s.bare(&l, now)
	s.ietf(&l, now)
	return l
}

// scan looks at each header once, which is quicker than to ask for each by its name.
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

// put takes over the values of a header of a family.
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

// xFamily returns which limit the end of a header's name means; -1 for none that is known.
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

// anthropicFamily is xFamily for what lies between the ends of the names of Anthropic's.
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

// requests takes over X-Ratelimit-*-Requests, which some providers have for the minute
// and others for the day.
func (s *limitHeaders) requests(l *ratelimit.ProviderLimits, now time.Time) {
	r, ok := s.of[xRequests].read(now)
	switch {
	case !ok:
	case s.azure:
		// Its limit is that of a slice of 1 or 10 seconds, and does not say of which.
		if r.HasRemaining {
			if r.Reset == 0 || r.Reset > azureSlice {
				r.Reset = azureSlice
			}
			r.Limit = 0
			tighten(&l.RPM, r)
		}
	case s.groq || r.Reset > minuteReset || refillsInADay(r):
		tighten(&l.RPD, r)
	default:
		tighten(&l.RPM, r)
	}
}

// refillsInADay reports whether what was used of a limit comes back at the rate of the
// whole limit in a day, within a tenth.
func refillsInADay(r ratelimit.ProviderLimit) bool {
	if !r.HasRemaining || r.Remaining >= r.Limit {
		return false
	}
	whole := r.Reset.Seconds() * float64(r.Limit) / float64(r.Limit-r.Remaining)
	return math.Abs(whole-86400) <= 8640
}

// learn takes over a limit as it is told.
func (s *limitHeaders) learn(to *ratelimit.ProviderLimit, family int, now time.Time) {
	if r, ok := s.of[family].read(now); ok {
		tighten(to, r)
	}
}

func (s *limitHeaders) anthropic(l *ratelimit.ProviderLimits, now time.Time) {
	s.learn(&l.RPM, anthropicRequests, now)
	in, hasIn := s.of[anthropicInput].read(now)
	out, hasOut := s.of[anthropicOutput].read(now)
	if hasIn {
		tighten(&l.ITPM, rounded(in))
	}
	if hasOut {
		tighten(&l.OTPM, rounded(out))
	}
	if all, ok := s.of[anthropicTokens].read(now); ok && all.HasRemaining && !hasIn && !hasOut {
		// It is the most restrictive of several limits, now this one and now that.
		all.Limit = 0
		tighten(&l.TPM, rounded(all))
	}
}

// rounded marks a limit's remaining tokens as rounded.
func rounded(r ratelimit.ProviderLimit) ratelimit.ProviderLimit {
	if r.HasRemaining {
		r.Rounding = anthropicRounding
	}
	return r
}

// bare takes over X-Ratelimit-Remaining and -Reset. The window is known only as far as
// the time until the reset tells it, which is too little to learn a limit from.
func (s *limitHeaders) bare(l *ratelimit.ProviderLimits, now time.Time) {
	r, ok := s.of[xBare].read(now)
	if !ok || !r.HasRemaining || r.Reset == 0 {
		return
	}
	r.Limit = 0
	if r.Reset <= minuteReset {
		tighten(&l.RPM, r)
	} else {
		tighten(&l.RPD, r)
	}
}

// read returns what the headers of one limit say, if it is anything that can be. A limit
// of zero is none that lets calls pass, so it is not believed, and neither is what is left
// of it; nor is one that is there again only after mostReset.
func (f *limitFields) read(now time.Time) (r ratelimit.ProviderLimit, ok bool) {
	if f.limit == nil && f.remaining == nil {
		return r, false
	}
	limit, hasLimit := leastCount(f.limit)
	if hasLimit && limit == 0 {
		return r, false
	}
	r.Limit = limit
	r.Remaining, r.HasRemaining = leastCount(f.remaining)
	for _, text := range f.reset {
		if d, said := timeTo(text, now); said && d > mostReset {
			return ratelimit.ProviderLimit{}, false
		} else if said {
			r.Reset = max(r.Reset, d)
		}
	}
	if !hasLimit && !r.HasRemaining {
		return ratelimit.ProviderLimit{}, false
	}
	return r, true
}

// tighten adds to a limit what else is said of it. Of two figures the tighter counts.
func tighten(to *ratelimit.ProviderLimit, r ratelimit.ProviderLimit) {
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
