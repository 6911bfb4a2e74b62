package llmhttp

import (
	"math"
	"net"
	"strings"
)

// readable returns those of a header's values that are read.
func readable(values []string) []string {
	if len(values) == 1 && len(values[0]) <= mostHeader {
		return values
	}
	var short []string
	for _, s := range values[:min(len(values), mostValues)] {
		if len(s) <= mostHeader {
			short = append(short, s)
		}
	}
	return short
}

// leastCount returns the smallest count that the values of a header have. Values that
// were joined to one, by a comma and a space, count each: without a space the comma may be
// that of 1,000.
func leastCount(values []string) (least int, ok bool) {
	for _, s := range values {
		for more := true; more; {
			var one string
			one, s, more = strings.Cut(s, ", ")
			if n, count := parseCount(one); count && (!ok || n < least) {
				least, ok = n, true
			}
		}
	}
	return least, ok
}

// parseCount returns a count of zero or more that is written in digits, perhaps with a
// point and zeros after it, and is at most mostTokens.
func parseCount(s string) (int, bool) {
	s, fraction, _ := strings.Cut(strings.TrimSpace(s), ".")
	if s == "" || strings.Trim(fraction, "0") != "" {
		return 0, false
	}
	n := int64(0)
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		if n = n*10 + int64(s[i]-'0'); n > mostTokens {
			return 0, false
		}
	}
	return int(min(n, math.MaxInt)), true
}

// hostIn reports whether a host, perhaps with a port, is a domain or lies in it.
func hostIn(host, domain string) bool {
	if strings.IndexByte(host, ':') >= 0 {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
	}
	host = strings.TrimSuffix(host, ".")
	at := len(host) - len(domain)
	return at >= 0 && strings.EqualFold(host[at:], domain) && (at == 0 || host[at-1] == '.')
}
