// What others use of a limit, when models are forgotten.

package ratelimit

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// External usage that is over takes no memory, also of models without calls.
func TestPruneDropsWhatIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl, err := NewWithConfig(Config{FilePath: filepath.Join(t.TempDir(), "f"), Quotas: map[string]ModelQuota{"m": {MaxRPM: 1}, "n": {MaxRPM: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		stop := rl.BackgroundPrune(10 * time.Second)
		defer stop()
		rl.Observe("m", ProviderLimits{RPM: ProviderLimit{HasRemaining: true}})
		rl.Observe("n", ProviderLimits{RPM: ProviderLimit{HasRemaining: true, Reset: time.Second}})
		for after, want := range []int{2, 1, 1, 1, 1, 1, 0} {
			rl.mu.RLock()
			held := 0
			for a := range rl.engine.Accounts {
				if a.Reports != nil {
					held++
				}
			}
			rl.mu.RUnlock()
			if held != want {
				t.Errorf("after %d prunes something of %d models is held back, want %d", after, held, want)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
	})
}
