package catalog

import (
	"fmt"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// A recent forgets the name that was put first, also after it was read from an image.
func TestRecentForgetsTheOldest(t *testing.T) {
	var p recent[int]
	for n := range 10_000 {
		p.Put(fmt.Sprint(n), n)
	}
	p.Put("0", -1) // is the newest now
	p.Drop("5")
	p.Drop("none")
	p.Put("5", 5)
	data := p.AppendImage(nil, func(to []byte, n int) []byte { return wire.AppendInt(to, int64(n)) })
	r := wire.NewReader(data)
	again := readRecent(r, func(r *wire.Reader) int { return int(r.Int()) })
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*recent[int]{"the first": &p, "the one from its image": &again} {
		if v, ok := p.Get("0"); v != -1 || !ok {
			t.Errorf("%s: 0 is %d, %t", name, v, ok)
		}
		p.Put("new", 1)
		p.Put("newer", 2)
		for n := range 4 {
			if _, ok := p.Get(fmt.Sprint(n)); ok != (n == 0 || n == 3) {
				t.Errorf("%s: %d is there: %t", name, n, ok)
			}
		}
	}
}
