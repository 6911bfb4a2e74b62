package notice

import (
	"slices"
	"testing"
	"time"
)

// Cooldowns that begin, are looked at, get other names, and end.
func TestCooldowns(t *testing.T) {
	var c Cooldowns
	until := map[string]int64{"a": 10, "b": 20, "c": int64(time.Hour)}
	left := func(now int64) func(string) int64 { return func(name string) int64 { return until[name] - now } }
	if c.LooksAt() != never || c.End(left(0)) != nil {
		t.Fatal("none, and yet there is one")
	}
	for _, name := range []string{"b", "c", "a"} {
		c.Begin(name, "caller", until[name], 0)
	}
	if c.LooksAt() != 10 {
		t.Errorf("looks at %d, want 10", c.LooksAt())
	}
	if got, want := c.End(left(20)), []Cooldown{{"a", "caller"}, {"b", "caller"}}; !slices.Equal(got, want) {
		t.Errorf("%v have ended, want %v", got, want)
	}
	if c.Look(20, left(20)); c.LooksAt() != 20+mostSleep {
		t.Errorf("looks at %d, want %d: a timer does not follow the wall clock", c.LooksAt(), 20+mostSleep)
	}
	c.Begin("d", "overloaded", 1, 30)
	c.Rename(func(name string) string { return map[string]string{"c": "e", "d": "d", "e": "e"}[name] })
	if got, want := c.End(func(string) int64 { return 0 }), []Cooldown{{"d", "overloaded"}, {"e", "caller"}}; !slices.Equal(got, want) {
		t.Errorf("%v have ended, want %v", got, want)
	}
	if c.Begin("f", "", 1, 0); c.LooksAt() != 1 {
		t.Errorf("looks at %d, want 1", c.LooksAt())
	}
	if c.Clear(); c.LooksAt() != never {
		t.Error("one is left that was forgotten")
	}
}
