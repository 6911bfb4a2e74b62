package httplimit

import (
	"cmp"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// inFlightPolicy is the name of the policy of Options.InFlight.
const inFlightPolicy = "in-flight"

// policy is a limit as the fields of a response show it.
type policy struct {
	name      string
	unit      string // empty for requests
	quota     int
	window    time.Duration // 0 without one
	remaining int
	reset     time.Duration // until remaining is quota again; of one that refuses, until it fits
	refuses   bool
}

// setFields sets the fields that tell a decision, unless it is about no limit.
func (h *handler) setFields(header http.Header, d *Decision) {
	var few [4]policy
	policies := h.policies(few[:0], d)
	if d.RetryAfter > 0 && !d.Shadow {
		header["Retry-After"] = []string{strconv.FormatInt(seconds(d.RetryAfter), 10)}
	}
	if len(policies) == 0 {
		return
	}
	var buffer [512]byte
	text := buffer[:0]
	for i := range policies {
		text = policies[i].appendPolicy(text, i == 0)
	}
	end := len(text)
	if !d.OK {
		policies = slices.DeleteFunc(policies, func(p policy) bool { return !p.refuses })
	}
	if len(policies) > 0 { // it has none if the limiter failed
		first := closest(policies)
		chosen := policies[first]
		copy(policies[1:], policies[:first])
		policies[0] = chosen
	}
	for i := range policies {
		text = policies[i].appendCurrent(text, i == 0)
	}
	lines, values := string(text), make([]string, 2) // few allocations, as this is done for each request
	values[0], values[1] = lines[:end], lines[end:]
	addField(header, "Ratelimit-Policy", values[:1:1])
	if len(policies) == 0 {
		return
	}
	addField(header, "Ratelimit", values[1:])
	if h.Legacy {
		policies[0].setLegacy(header)
	}
}

// addField adds a value to a field.
func addField(header http.Header, name string, value []string) {
	if before := header[name]; len(before) > 0 {
		value = append(slices.Clip(before), value...)
	}
	header[name] = value
}

// setLegacy sets the fields of Options.Legacy.
func (p *policy) setLegacy(header http.Header) {
	header["X-Ratelimit-Limit"] = []string{strconv.Itoa(p.quota)}
	header["X-Ratelimit-Remaining"] = []string{strconv.Itoa(p.remaining)}
	delete(header, "X-Ratelimit-Reset") // another Handler's; 0 would say "now"
	if p.reset > 0 {
		header["X-Ratelimit-Reset"] = []string{strconv.FormatInt(seconds(p.reset), 10)}
	}
}

// policies appends the policies of a decision to list. Names are made unique.
func (h *handler) policies(list []policy, d *Decision) []policy {
	held := slices.ContainsFunc(d.Limits, h.settles)
	for i := range d.Decisions {
		l, decision := &d.Limits[i], &d.Decisions[i]
		p := policy{
			name: l.Namespace, quota: l.Limit, window: l.Window,
			remaining: max(decision.Remaining, 0), reset: decision.ResetAfter, refuses: !decision.OK,
		}
		if h.settles(*l) {
			p.unit = l.Namespace
		}
		switch {
		case p.refuses:
			p.reset = resetOf(*decision)
		case held && p.remaining < p.quota: // units on hold do not count in ResetAfter
			p.reset = max(p.reset, p.window)
		}
		list = append(list, p)
	}
	if d.MaxInFlight > 0 {
		list = append(list, policy{
			name: inFlightPolicy, unit: "concurrent-requests", quota: d.MaxInFlight,
			remaining: max(d.MaxInFlight-d.InFlight, 0), refuses: d.Reason == OverInFlight,
		})
		if p := &list[len(list)-1]; p.refuses {
			p.reset = leastWait
		}
	}
	distinguish(list)
	return list
}

// resetOf returns the time until a request would fit a limit that refuses it; 0 for never.
func resetOf(d limit.Decision) time.Duration {
	if d.Never {
		return 0
	}
	return cmp.Or(max(d.RetryAfter, 0), leastWait)
}

// distinguish gives policies of the same name different ones: with the window in seconds and, if
// that is not enough, with the place in the list.
func distinguish(list []policy) {
	if unique(list) {
		return
	}
	byWindow := func(i int) int64 { return seconds(list[i].window) }
	byPlace := func(i int) int64 { return int64(i + 1) }
	extend(list, false, byWindow)
	extend(list, false, byPlace)
	extend(list, !unique(list), byPlace)
}

// extend adds a number to the names that several policies have, or to all.
func extend(list []policy, all bool, number func(i int) int64) {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].name
	}
	for i, name := range names {
		if all || slices.Index(names, name) != i || slices.Contains(names[i+1:], name) {
			list[i].name += "-" + strconv.FormatInt(number(i), 10)
		}
	}
}

// unique reports whether no two policies have the same name.
func unique(list []policy) bool {
	for i := range list {
		for j := range i {
			if list[i].name == list[j].name {
				return false
			}
		}
	}
	return true
}

// closest returns the index of the policy that is closest to exhaustion: of those that refuse, the
// one with the longest wait or the one that never fits, else the one of which the smallest share
// remains.
func closest(list []policy) (first int) {
	for i := 1; i < len(list); i++ {
		if list[i].closer(&list[first]) {
			first = i
		}
	}
	return first
}

func (p *policy) closer(than *policy) bool {
	if p.refuses != than.refuses {
		return p.refuses
	}
	if p.refuses && p.reset != than.reset {
		return p.reset == 0 || than.reset != 0 && p.reset > than.reset
	}
	high, low := bits.Mul64(uint64(p.remaining), uint64(than.quota))
	thanHigh, thanLow := bits.Mul64(uint64(than.remaining), uint64(p.quota))
	return high < thanHigh || high == thanHigh && low < thanLow
}

// appendPolicy appends the policy to the list of RateLimit-Policy, which may begin with it.
func (p *policy) appendPolicy(line []byte, begins bool) []byte {
	line = appendInteger(appendItem(line, p.name, begins), ";q=", int64(p.quota))
	if p.window > 0 {
		line = appendInteger(line, ";w=", seconds(p.window))
	}
	if p.unit != "" {
		line = appendString(append(line, ";qu="...), p.unit)
	}
	return line
}

// appendCurrent appends the policy to the list of RateLimit, which may begin with it.
func (p *policy) appendCurrent(line []byte, begins bool) []byte {
	line = appendInteger(appendItem(line, p.name, begins), ";r=", int64(p.remaining))
	if p.reset > 0 {
		line = appendInteger(line, ";t=", seconds(p.reset))
	}
	return line
}

// appendInteger appends a parameter whose value is an integer.
func appendInteger(line []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(line, name...), min(n, maxInteger), 10)
}

// maxInteger is the largest integer of a structured field (RFC 9651, section 3.3.1).
const maxInteger = 999_999_999_999_999

// appendItem appends a string as a member of a list, which may begin with it.
func appendItem(line []byte, s string, begins bool) []byte {
	if !begins {
		line = append(line, ", "...)
	}
	return appendString(line, s)
}

// appendString appends a string of a structured field, which has printable ASCII only. Other
// bytes become %XX.
func appendString(line []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	line = append(line, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			line = append(line, '\\', c)
		case c < ' ' || c > '~':
			line = append(line, '%', hex[c>>4], hex[c&15])
		default:
			line = append(line, c)
		}
	}
	return append(line, '"')
}

// seconds returns a duration in seconds, rounded up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
