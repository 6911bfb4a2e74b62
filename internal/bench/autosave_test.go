package bench

import (
	"fmt"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// BenchmarkAutoPersist compares RecordUsage with autosave and without, by Delay
// and the number of live entries. With the short Delay there is nearly always a
// save under way.
func BenchmarkAutoPersist(b *testing.B) {
	for _, backend := range []string{"yaml", "sqlite"} {
		for _, delay := range []time.Duration{10 * time.Millisecond, time.Second} {
			for _, n := range []int{100, 10_000} {
				b.Run(fmt.Sprintf("%s/%v/%d", backend, delay, n), func(b *testing.B) {
					off := recorder(b, backend, n, ratelimit.AutoPersist{})
					on := recorder(b, backend, n, ratelimit.AutoPersist{Delay: delay})
					compareWith(b, "off", off, on)
				})
			}
		}
	}
}

// recorder returns a function that records in a window of n entries.
func recorder(b *testing.B, backend string, n int, when ratelimit.AutoPersist) func() {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Backend: backend, FilePath: b.TempDir() + "/state", AutoPersist: when,
		Quotas: map[string]ratelimit.ModelQuota{model: unbounded},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { rl.Close() })
	for range n {
		rl.RecordUsage(model, 90, 10)
	}
	return func() { rl.RecordUsage(model, 90, 10) }
}
