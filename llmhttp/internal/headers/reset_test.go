package headers

import (
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headerstest"
)

func TestParseReset(t *testing.T) {
	const no = -1
	tests := []struct {
		text string
		want time.Duration // no: it is ignored
	}{
		{"1s", time.Second},
		{"12ms", 12 * time.Millisecond},
		{"6m0s", 6 * time.Minute},
		{"2m59.56s", 2*time.Minute + 59*time.Second + 560*time.Millisecond},
		{"1h30m", 90 * time.Minute},
		{"36.4s", 36*time.Second + 400*time.Millisecond},
		{".5s", time.Second / 2},
		{"7us", 7 * time.Microsecond},
		{"7µs", 7 * time.Microsecond},
		{"7μs", 7 * time.Microsecond},
		{"9ns", 9},
		{"0s", 0},
		{"25h", 25 * time.Hour},
		{"25h0.000000001s", no},
		{"99999999999999999999h", no},
		{"1.2.3s", no},
		{"1s2", no},
		{"1d", no},
		{"5 s", no},
		{".s", no},
		{"s", no},
		{"-1s", no},
		{"+1s", no},

		{"0", 0},
		{"30", 30 * time.Second},
		{" 30 ", 30 * time.Second},
		{"0.25", time.Second / 4},
		{"5.", 5 * time.Second},
		{"1.0000000019", time.Second + 1},
		{"90000", 25 * time.Hour},
		{"90001", no},
		{"-5", no},
		{"+5", no},
		{"NaN", no},
		{"Inf", no},
		{"1e21", no},
		{"1e1", no},
		{"0x10", no},
		{"1_000", no},
		{".", no},
		{"", no},

		{"2026-10-04T12:00:30Z", 30 * time.Second},
		{"2026-10-04T12:00:30.25Z", 30*time.Second + time.Second/4},
		{"2026-10-04T05:01:00-07:00", time.Minute},
		{"2026-10-04T11:00:00Z", 0},
		{"2026-10-01T11:00:00Z", no},
		{"2026-10-05T13:00:00Z", 25 * time.Hour},
		{"2026-10-05T13:00:01Z", no},
		{"9999-12-31T23:59:59Z", no},
		{"0000-01-01T00:00:00Z", no},
		{"2026-10-04", no},

		{"Sun, 04 Oct 2026 12:01:00 GMT", time.Minute},
		{"Sunday, 04-Oct-26 12:01:00 GMT", time.Minute},
		{"Sun Oct  4 12:01:00 2026", time.Minute},
		{"Sun, 04 Oct 2026 11:59:00 GMT", 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", no},
		{"tomorrow", no},
		{"Tomorrow", no},

		{"1791115230", 30 * time.Second},
		{"1791115230.5", 30 * time.Second},
		{"1791115230000", 30 * time.Second},
		{"1791115230250", 30*time.Second + time.Second/4},
		{"00001791115230", 30 * time.Second},
		{"1791115199", 0},
		{"1000000000", no},
		{"999999999", no},
		{"99999999999", no},
		{"179111523000", no},
		{"1791115230000000", no},
		{"1791115230000000000", no},
		{"999999999999999999999999999999", no},
		{strings.Repeat("0", 63) + "7", 7 * time.Second},
		{strings.Repeat("0", 64) + "7", no},
		{strings.Repeat("0", 62) + "7s", 7 * time.Second},
		{strings.Repeat("0", 63) + "7s", no},
	}
	for _, test := range tests {
		got, ok := parseReset(test.text, headerstest.Now)
		if !ok && got == 0 {
			got = no
		}
		if got != test.want {
			t.Errorf("%q: got %v, want %v", test.text, got, test.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	const no = -1
	tests := []struct {
		headers string
		want    time.Duration // no: they are ignored
	}{
		{"", no},
		{"Retry-After: 20", 20 * time.Second},
		{"retry-after: 0", 0},
		{"Retry-After: 1.5", 1500 * time.Millisecond},
		{"Retry-After: 2s", 2 * time.Second},
		{"Retry-After: Sun, 04 Oct 2026 12:00:07 GMT", 7 * time.Second},
		{"Retry-After: Sun, 04 Oct 2026 11:59:07 GMT", 0},
		{"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", no},
		{"Retry-After: 90000", 25 * time.Hour},
		{"Retry-After: 90000.1", no},
		{"Retry-After: 1791115230", no},
		{"Retry-After: 1e21", no},
		{"Retry-After: -5", no},
		{"Retry-After: NaN", no},
		{"Retry-After:", no},
		{"Retry-After: 20\nretry-after-ms: 1250", 1250 * time.Millisecond},
		{"Retry-After-Ms: 0.5", 500 * time.Microsecond},
		{"Retry-After: 20\nRetry-After-Ms: -1", 20 * time.Second},
		{"Retry-After: 20\nRetry-After-Ms: 1e21", 20 * time.Second},
		{"Retry-After: 20\nRetry-After-Ms: 90000001", 20 * time.Second},
		{"Retry-After: 20\nRetry-After-Ms: 0", 0},
		{"Retry-After: 20\nRetry-After: 30\nRetry-After: 25", 30 * time.Second},
		{"Retry-After-Ms: 20\nRetry-After-Ms: 30\nRetry-After-Ms: x", 30 * time.Millisecond},
		{"Retry-After: " + strings.Repeat("0", 64) + "7", no},
		{"Retry-After: 20\nRetry-After: " + strings.Repeat("9", 1025), 20 * time.Second},
	}
	for _, test := range tests {
		got, ok := RetryAfter(headerstest.Parse(test.headers), headerstest.Now)
		if !ok && got == 0 {
			got = no
		}
		if got != test.want {
			t.Errorf("%q: got %v, want %v", test.headers, got, test.want)
		}
	}
}

func FuzzParseReset(f *testing.F) {
	for _, s := range []string{"6m0s", "36.4s", "30", "1e21", "-5", "2026-10-04T12:00:30Z", "Sun, 04 Oct 2026 12:01:00 GMT", "1791115230", "1791115230250", "99999999999999999999h1ns"} {
		f.Add(s, int64(1791115200))
	}
	f.Fuzz(func(t *testing.T, s string, now int64) {
		at := time.Unix(now%(1<<40), 0)
		d, ok := parseReset(s, at)
		if d < 0 || d > MaxReset || !ok && d != 0 {
			t.Errorf("%q: got %v, %v", s, d, ok)
		}
		// A duration means the same to package time.
		if want, err := time.ParseDuration(s); err == nil && len(s) <= maxTimeText && s != "0" &&
			!strings.ContainsAny(s, "+-") && (want > MaxReset) == ok {
			t.Errorf("%q: got %v, %v, want %v", s, d, ok, want)
		} else if err == nil && ok && s != "0" && want-d > 20 {
			t.Errorf("%q: got %v, want %v", s, d, want)
		}
	})
}
