package clock

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestDurationFormatAndParse(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "", 1: "1ns", 10 * time.Second: "10s", 1500 * time.Millisecond: "1.5s", 25 * time.Hour: "25h0m0s",
		-time.Second: "-1s", math.MaxInt64: "2562047h47m16.854775807s", math.MinInt64: "-2562047h47m16.854775808s",
	} {
		text := formatDuration(d)
		if text != want {
			t.Errorf("formatDuration(%d) = %q, want %q", d, text, want)
		}
		if got, err := parseDuration("f", text); got != d || err != nil {
			t.Errorf("parseDuration(%q) = %v, %v", text, got, err)
		}
	}
}

func TestDurationRefuses(t *testing.T) {
	for _, text := range []string{"10", "soon", "1 s", "9999999h", strings.Repeat("x", 10_000)} {
		_, err := parseDuration("burst", text)
		if err == nil || !strings.HasPrefix(err.Error(), "burst: ") || len(err.Error()) > 500 {
			t.Errorf("parseDuration(%.20q): %v", text, err)
		}
	}
	if d, err := parseDuration("f", "0"); d != 0 || err != nil {
		t.Errorf("0 is %v, %v", d, err)
	}
}
