package headers

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxReset is the longest time until a reset or a retry that is believed: a day, and an hour
	// for days that are longer and clocks that are wrong.
	MaxReset = 25 * time.Hour

	// forever stands for all longer durations.
	forever = time.Duration(1) << 60

	// maxTimeText is the longest text of a time or duration, in bytes.
	maxTimeText = 64
)

// RetryAfter returns the delay before the next call that the headers of an answer ask for at the
// time now: the longest one in Retry-After-Ms, else in Retry-After, in seconds or as a date. A
// value that is invalid or longer than MaxReset is ignored. It is safe for concurrent use.
func RetryAfter(h http.Header, now time.Time) (delay time.Duration, ok bool) {
	for _, s := range readable(h["Retry-After-Ms"]) {
		if d, number := decimal(strings.TrimSpace(s), time.Millisecond); number && d <= MaxReset {
			delay, ok = max(delay, d), true
		}
	}
	if ok {
		return delay, true
	}
	for _, s := range readable(h["Retry-After"]) {
		s = strings.TrimSpace(s)
		d, number := decimal(s, time.Second)
		valid := number && d <= MaxReset
		if !number {
			d, valid = parseReset(s, now)
		}
		if valid {
			delay, ok = max(delay, d), true
		}
	}
	return delay, ok
}

// parseReset returns the time from now until a reset that is written as a duration of Go (6m0s,
// 36.4s), in seconds, as an RFC 3339 time, as an HTTP date, or in seconds or milliseconds since
// 1970. It returns zero for a time in the past, and false for one more than MaxReset away.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	d, ok := timeTo(s, now)
	if !ok || d > MaxReset || d < -MaxReset {
		return 0, false
	}
	return max(d, 0), true
}

// timeTo is parseReset without bounds.
func timeTo(s string, now time.Time) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > maxTimeText {
		return 0, false
	}
	if d, ok := decimal(s, time.Second); ok {
		const billion = 1_000_000_000 // seconds are 31 years, so a larger number is a Unix time
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

// sinceEpoch returns the time from now until a number of seconds or milliseconds since 1970. Until
// the year 2286, the number of digits decides the unit.
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
	return forever
}

// units returns the sum of numbers with units, such as 1h30m or 12ms; at most forever.
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
		sum = min(sum+d, forever)
		s = s[j:]
	}
	return sum, true
}

// ParseSeconds returns the duration of a number of seconds without sign and exponent, possibly
// with a decimal point. It returns false for another text and for more than MaxReset.
func ParseSeconds(s string) (time.Duration, bool) {
	d, ok := decimal(s, time.Second)
	if !ok || d > MaxReset {
		return 0, false
	}
	return d, true
}

// decimal returns the duration of a number of units without sign and exponent, possibly with a
// decimal point; at most forever.
func decimal(s string, unit time.Duration) (time.Duration, bool) {
	if len(s) > maxTimeText {
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
			if d = d*10 + time.Duration(c-'0'); d > forever/10 {
				d = forever / 10
			}
		}
	}
	if digits == 0 {
		return 0, false
	}
	if d >= forever/unit {
		return forever, true
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
