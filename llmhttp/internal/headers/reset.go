package llmhttp

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// mostReset is the longest time until a reset, or until a call may be tried again,
	// that is believed: a day, and an hour for days that are longer and clocks that are wrong.
	mostReset = 25 * time.Hour

	// farAway is what longer times are taken for.
	farAway = time.Duration(1) << 60

	// mostTimeText is how long the text of a time or duration may be.
	mostTimeText = 64
)

// retryAfter returns how long to wait before the next call, as the headers of an answer
// say it: the longest of what Retry-After-Ms says, else of what Retry-After says, in
// seconds or as a date. What cannot be, or is longer than mostReset, says nothing.
func retryAfter(h http.Header, now time.Time) (delay time.Duration, ok bool) {
	for _, s := range readable(h["Retry-After-Ms"]) {
		if d, number := decimal(strings.TrimSpace(s), time.Millisecond); number && d <= mostReset {
			delay, ok = max(delay, d), true
		}
	}
	if ok {
		return delay, true
	}
	for _, s := range readable(h["Retry-After"]) {
		s = strings.TrimSpace(s)
		d, number := decimal(s, time.Second)
		said := number && d <= mostReset
		if !number {
			d, said = parseReset(s, now)
		}
		if said {
			delay, ok = max(delay, d), true
		}
	}
	return delay, ok
}

// parseReset returns how long it is from now until a reset that is written in one of
// these ways: a duration of Go as 6m0s or 36.4s, seconds, an RFC 3339 time, an HTTP date,
// or seconds or milliseconds since 1970. It is zero for a moment that is past, and not ok
// for one that is more than mostReset away.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	d, ok := timeTo(s, now)
	if !ok || d > mostReset || d < -mostReset {
		return 0, false
	}
	return max(d, 0), true
}

// timeTo is parseReset without its bounds.
func timeTo(s string, now time.Time) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > mostTimeText {
		return 0, false
	}
	if d, ok := decimal(s, time.Second); ok {
		const billion = 1_000_000_000 // seconds are 31 years, and 1970 was longer ago
		if d < billion*time.Second {
			return d, true
		}
		return sinceEpoch(s, now), true
	}
	switch first, last := s[0], s[len(s)-1]; {
	case (first == '.' || isDigit(first)) && (last == 's' || last == 'm' || last == 'h'):
		return units(s)
	case isDigit(first):
		t, err := time.Parse(time.RFC3339, s)
		return t.Sub(now), err == nil
	case first >= 'A' && first <= 'Z':
		t, err := http.ParseTime(s)
		return t.Sub(now), err == nil
	}
	return 0, false
}

// sinceEpoch returns how long it is from now until a number of seconds or milliseconds
// since 1970. Which of them it is tells how many digits it has, until the year 2286.
func sinceEpoch(s string, now time.Time) time.Duration {
	s, _, _ = strings.Cut(s, ".")
	s = strings.TrimLeft(s, "0")
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err == nil && len(s) == 10:
		return time.Unix(n, 0).Sub(now)
	case err == nil && len(s) == 13:
		return time.UnixMilli(n).Sub(now)
	}
	return farAway
}

// units returns the duration that numbers with units are together, as 1h30m or 12ms;
// at most farAway.
func units(s string) (sum time.Duration, ok bool) {
	for s != "" {
		i := 0
		for i < len(s) && (s[i] == '.' || isDigit(s[i])) {
			i++
		}
		j := i
		for j < len(s) && s[j] != '.' && !isDigit(s[j]) {
			j++
		}
		var unit time.Duration
		switch s[i:j] {
		case "h":
			unit = time.Hour
		case "m":
			unit = time.Minute
		case "s":
			unit = time.Second
		case "ms":
			unit = time.Millisecond
		case "us", "µs", "μs":
			unit = time.Microsecond
		case "ns":
			unit = time.Nanosecond
		default:
			return 0, false
		}
		d, number := decimal(s[:i], unit)
		if !number {
			return 0, false
		}
		sum = min(sum+d, farAway)
		s = s[j:]
	}
	return sum, true
}

// decimal returns so many units as a number without sign and exponent says, in digits
// and perhaps with a point; at most farAway.
func decimal(s string, unit time.Duration) (time.Duration, bool) {
	if len(s) > mostTimeText {
		return 0, false
	}
	var d time.Duration
	digits, point := 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.' && !point:
			point = true
		case !isDigit(c):
			return 0, false
		case point:
			digits++
		default:
			digits++
			if d = d*10 + time.Duration(c-'0'); d > farAway/10 {
				d = farAway / 10
			}
		}
	}
	if digits == 0 {
		return 0, false
	}
	if d >= farAway/unit {
		return farAway, true
	}
	d *= unit
	if _, fraction, _ := strings.Cut(s, "."); fraction != "" {
		for i := range len(fraction) {
			unit /= 10
			d += time.Duration(fraction[i]-'0') * unit
		}
	}
	return d, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
