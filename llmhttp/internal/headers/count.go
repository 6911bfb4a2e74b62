package headers

import (
	"math"
	"net"
	"strings"
)

// MaxCount is the largest count of requests or tokens that is believed.
const MaxCount = 1 << 40

// readable returns the values of a header that are read: the first maxValues of them that are
// not too long.
func readable(values []string) []string {
	if len(values) == 1 && len(values[0]) <= maxValue {
		return values
	}
	var short []string
	for _, s := range values[:min(len(values), maxValues)] {
		if len(s) <= maxValue {
			short = append(short, s)
		}
	}
	return short
}

// LeastCount returns the smallest count among the values of a header. See [ParseCount] for the
// form of a count.
func LeastCount(values []string) (count int, ok bool) { return least(readable(values)) }

// least returns the smallest count among values. A comma and a space separate values that were
// joined into one; without the space, the comma may be that of 1,000.
func least(values []string) (count int, ok bool) {
	for _, s := range values {
		for more := true; more; {
			var one string
			one, s, more = strings.Cut(s, ", ")
			if n, valid := ParseCount(one); valid && (!ok || n < count) {
				count, ok = n, true
			}
		}
	}
	return count, ok
}

// ParseCount returns a count of zero to MaxCount that is written in digits, possibly with a
// decimal point and zeros behind. It saturates where int has 32 bits.
func ParseCount(s string) (int, bool) {
	s, fraction, _ := strings.Cut(strings.TrimSpace(s), ".")
	if s == "" || strings.Trim(fraction, "0") != "" {
		return 0, false
	}
	n := int64(0)
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		if n = n*10 + int64(s[i]-'0'); n > MaxCount {
			return 0, false
		}
	}
	return int(min(n, math.MaxInt)), true
}

// IsHost reports whether a host, with or without a port, is a domain or lies in it.
func IsHost(host, domain string) bool {
	if strings.IndexByte(host, ':') >= 0 {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	host = strings.TrimSuffix(host, ".")
	at := len(host) - len(domain)
	return at >= 0 && strings.EqualFold(host[at:], domain) && (at == 0 || host[at-1] == '.')
}
