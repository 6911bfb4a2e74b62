package status

import (
	"testing"
	"time"
)

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Second: "10s", time.Minute: "1m", 70 * time.Second: "1m10s", 10 * time.Minute: "10m",
		time.Hour: "1h", time.Hour + 10*time.Second: "1h0m10s", 70 * time.Minute: "1h10m", 20 * time.Hour: "20h",
	} {
		if got := short(d); got != want {
			t.Errorf("%d s: %s, want %s", d/time.Second, got, want)
		}
	}
}
