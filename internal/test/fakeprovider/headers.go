package fakeprovider

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Headers are which headers say what is left of the limits.
type Headers int

// The kinds of headers.
const (
	OpenAIHeaders  Headers = iota // requests and tokens per minute, resets as durations
	AzureHeaders                  // the same, resets as whole seconds
	GroqHeaders                   // requests per day, tokens per minute; cached tokens do not count
	MistralHeaders                // names of their own, no resets
	NoHeaders                     // as local servers
)

// limits returns the headers that say what is left of the limits. The server must be locked.
func (x *exchange) limits(now time.Time) http.Header {
	h := make(http.Header)
	state := func(d Dimension) (limit, left int, reset time.Duration, found bool) {
		m, limit := x.model.meters[d], x.model.config.Limits[d]
		if m == nil {
			return 0, 0, 0, false
		}
		return limit, max(limit-m.used(now), 0), untilFull(m, limit, now), true
	}
	set := func(d Dimension, prefix, name string, format func(time.Duration) string) {
		if limit, left, reset, found := state(d); found {
			h.Set(prefix+"limit-"+name, strconv.Itoa(limit))
			h.Set(prefix+"remaining-"+name, strconv.Itoa(left))
			if format != nil {
				h.Set(prefix+"reset-"+name, format(reset))
			}
		}
	}
	const prefix = "x-ratelimit-"
	switch {
	case x.call.Dialect == Anthropic:
		x.anthropicLimits(h, now, state)
	case x.call.Dialect != OpenAI || x.headers == NoHeaders:
	case x.headers == AzureHeaders:
		set(RPM, prefix, "requests", wholeSeconds)
		set(TPM, prefix, "tokens", wholeSeconds)
	case x.headers == GroqHeaders:
		set(RPD, prefix, "requests", goDuration)
		set(TPM, prefix, "tokens", goDuration)
	case x.headers == MistralHeaders:
		set(RPM, prefix, "req-minute", nil)
		set(TPM, prefix, "tokens-minute", nil)
		if x.model.meters[TPM] != nil {
			h.Set(prefix+"tokens-query-cost", strconv.Itoa(x.answer.Prompt+x.answer.Output))
		}
	default:
		set(RPM, prefix, "requests", goDuration)
		set(TPM, prefix, "tokens", goDuration)
	}
	return h
}

// anthropicLimits sets Anthropic's headers: tokens are rounded to thousands, and those
// without a direction repeat the limit that has least left.
func (x *exchange) anthropicLimits(h http.Header, now time.Time, state func(Dimension) (int, int, time.Duration, bool)) {
	set := func(d Dimension, name string) {
		limit, left, reset, found := state(d)
		if !found {
			return
		}
		if d != RPM {
			left = (left + 500) / 1000 * 1000
		}
		prefix := "anthropic-ratelimit-" + name
		h.Set(prefix+"-limit", strconv.Itoa(limit))
		h.Set(prefix+"-remaining", strconv.Itoa(left))
		h.Set(prefix+"-reset", now.Add(reset+time.Second-1).UTC().Format(time.RFC3339))
	}
	set(RPM, "requests")
	set(ITPM, "input-tokens")
	set(OTPM, "output-tokens")
	tightest, share := Dimension(-1), 2.0
	for _, d := range []Dimension{ITPM, OTPM, TPM} {
		if limit, left, _, found := state(d); found && float64(left)/float64(limit) < share {
			tightest, share = d, float64(left)/float64(limit)
		}
	}
	if tightest >= 0 {
		set(tightest, "tokens")
	}
}

// goDuration returns a duration as OpenAI and Groq write it: "6m0s", "12ms", "2m59.56s".
func goDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", (d+time.Millisecond-1)/time.Millisecond)
	case d < time.Minute:
		return strconv.FormatFloat(centiseconds(d).Seconds(), 'f', -1, 64) + "s"
	}
	return centiseconds(d).String()
}

// centiseconds rounds a duration up to hundredths of a second.
func centiseconds(d time.Duration) time.Duration {
	const unit = 10 * time.Millisecond
	return (d + unit - 1) / unit * unit
}

func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
