package headers

import (
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// The windows of a limiter, in seconds.
const (
	minuteWindow = 60
	dayWindow    = 86400
)

// maxMembers bounds the members read of a list.
const maxMembers = 16

// member is one member of a list in a structured field (RFC 9651), with the parameters that
// limits use. A missing number is -1.
type member struct {
	name          string
	unit          string // qu
	quota, window int    // q, and w in seconds
	remaining     int    // r
	reset         int    // t, in seconds
}

// ietf reads the fields of draft-ietf-httpapi-ratelimit-headers: those of its eighth draft and
// later ones if present, else those of earlier drafts.
func (s *limitHeaders) ietf(l *ratelimit.ProviderLimits, now time.Time) {
	if s.policy == nil {
		s.ietfOld(l, now)
		return
	}
	current := members(s.current)
	for _, p := range members(s.policy) {
		to := windowOf(l, p.window)
		if to == nil || p.quota <= 0 || p.unit != "" && p.unit != "requests" {
			continue
		}
		Tighten(to, ratelimit.ProviderLimit{Limit: p.quota})
		for _, c := range current {
			if c.name == p.name {
				c.tighten(to)
			}
		}
	}
}

// tighten adds the remaining count of the member to a limit.
func (m member) tighten(to *ratelimit.ProviderLimit) {
	if m.reset > int(MaxReset/time.Second) || m.remaining < 0 {
		return
	}
	reset := time.Duration(max(m.reset, 0)) * time.Second
	Tighten(to, ratelimit.ProviderLimit{Remaining: m.remaining, HasRemaining: true, Reset: reset})
}

// ietfOld reads Ratelimit-Limit, -Remaining and -Reset. The limit may be followed by those of all
// windows, as in "50, 10;w=1, 50;w=60"; the remaining count belongs to the first.
func (s *limitHeaders) ietfOld(l *ratelimit.ProviderLimits, now time.Time) {
	f := &s.of[ietfBare]
	list := members(f.limit)
	bare := *f
	if len(list) > 0 {
		bare.limit = []string{list[0].name}
	}
	r, ok := bare.read(now)
	if !ok {
		return
	}
	r.Limit = 0
	window := -1
	for _, m := range list {
		if m.window < 0 {
			continue
		}
		if window < 0 && m.name == list[0].name {
			window = m.window
		}
		if to := windowOf(l, m.window); to != nil {
			quota, _ := ParseCount(m.name)
			Tighten(to, ratelimit.ProviderLimit{Limit: quota})
		}
	}
	if window < 0 && r.Reset > 0 && r.Reset <= minuteReset {
		window = minuteWindow
	}
	if to := windowOf(l, window); to != nil && r.HasRemaining {
		Tighten(to, r)
	}
}

// windowOf returns the limit of requests in a window of the given seconds; nil for other windows.
func windowOf(l *ratelimit.ProviderLimits, seconds int) *ratelimit.ProviderLimit {
	switch seconds {
	case minuteWindow:
		return &l.RPM
	case dayWindow:
		return &l.RPD
	}
	return nil
}

// members returns the members of the list that the values of a header form together. A value that
// is no list adds none.
func members(values []string) []member {
	var list []member
	for _, s := range values {
		before := len(list)
		for more := true; more && len(list) < maxMembers; {
			m := member{quota: -1, window: -1, remaining: -1, reset: -1}
			var ok bool
			if s, ok = m.parse(s); !ok {
				list = list[:before]
				break
			}
			list = append(list, m)
			s, more = strings.CutPrefix(s, ",")
		}
	}
	return list
}

// parse reads a member and returns the rest behind it, which is empty or begins with a comma.
func (m *member) parse(s string) (rest string, ok bool) {
	if m.name, s, ok = item(s); !ok || m.name == "" {
		return s, false
	}
	for {
		var more bool
		if s, more = strings.CutPrefix(s, ";"); !more {
			return s, s == "" || s[0] == ','
		}
		s = strings.TrimLeft(s, " ")
		i := strings.IndexAny(s, "=;, \t")
		if i < 0 {
			i = len(s)
		}
		key, value := s[:i], ""
		s = strings.TrimLeft(s[i:], " \t")
		if after, has := strings.CutPrefix(s, "="); has {
			if value, s, ok = item(after); !ok {
				return s, false
			}
		}
		m.set(key, value)
	}
}

// set stores a parameter. An invalid number counts as missing.
func (m *member) set(key, value string) {
	var to *int
	switch key {
	case "qu":
		m.unit = value
		return
	case "q":
		to = &m.quota
	case "w":
		to = &m.window
	case "r":
		to = &m.remaining
	case "t":
		to = &m.reset
	default:
		return
	}
	*to = -1
	if n, ok := ParseCount(value); ok {
		*to = n
	}
}

// item reads a quoted string, of which it returns the content with its escapes, or any other item
// as written. It skips the spaces around the item.
func item(s string) (text, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t")
	if !strings.HasPrefix(s, `"`) {
		i := strings.IndexAny(s, ";,")
		if i < 0 {
			i = len(s)
		}
		return strings.TrimRight(s[:i], " \t"), s[i:], true
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[1:i], strings.TrimLeft(s[i+1:], " \t"), true
		}
	}
	return "", "", false
}
