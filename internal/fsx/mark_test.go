package fsx

import (
	"math"
	"path/filepath"
	"testing"
)

func TestMarkIsSeenThroughEveryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, b := fairLockAt(t, path), fairLockAt(t, path)
	if a.HasMark(0) {
		t.Error("a new lock has a mark")
	}
	for _, seq := range []int64{0, 1, 1 << 40, math.MaxInt64, 2} {
		mustLock(t, a)
		if err := a.SetMark(seq); err != nil {
			t.Fatal(err)
		}
		for name, l := range map[string]*FairLock{"its own": a, "another": b} {
			if !l.HasMark(seq) || l.HasMark(seq^1) {
				t.Errorf("%d by %s lock: %v, and %d: %v", seq, name, l.HasMark(seq), seq^1, l.HasMark(seq^1))
			}
		}
		mustUnlock(t, a)
	}
	if c := fairLockAt(t, path); !c.HasMark(2) {
		t.Error("a lock opened later does not have it")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if a.HasMark(2) || a.SetMark(3) == nil {
		t.Error("a closed lock has a mark")
	}
}
