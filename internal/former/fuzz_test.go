package former

import (
	"encoding/binary"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// bits takes numbers off bytes. Behind their end all are zero.
type bits struct{ left []byte }

func (b *bits) byte() byte {
	if len(b.left) == 0 {
		return 0
	}
	first := b.left[0]
	b.left = b.left[1:]
	return first
}

// number returns a small number, or any.
func (b *bits) number() int64 {
	if small := b.byte(); small < 0xf0 || len(b.left) < 8 {
		return int64(small&0x7f) - 8
	}
	n := binary.LittleEndian.Uint64(b.left)
	b.left = b.left[8:]
	return int64(n)
}

func (b *bits) text() string {
	return [...]string{
		"", "[1,2,3]", `{"MaxRPM":5}`, `{"MaxRPM":5,"DayZone":"Asia/Tokyo"}`, `{"Origin":"account","Is":{"MaxTPD":6}}`, `{"gone":true}`,
		`{"models":["a","b*"]}`, `{"live":{"ReservePercent":40}}`, "live", "{", `{"MaxInFlight":2,"AdaptiveFloorRPM":3}`,
		`{"RPM":5,"Slots":2}`,
	}[b.byte()%12]
}

func (b *bits) name() string {
	return [...]string{"", "a", "b", "*", "b*", state.PoolName("p"), state.PoolName("a"), "\xff\x00"}[b.byte()%8]
}

// Whatever events there are: they are refused, or make a state.
func FuzzEvents(f *testing.F) {
	f.Add([]byte{9, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &bits{data}
		c := New(now)
		c.Span, c.Mono, c.Folded = b.number()*second, b.number()*second, b.number()
		c.UsedAt = now.Wall - b.number()*second
		c.Classes = `{"live":{"ReservePercent":40}}`
		for seq := int64(1); len(b.left) > 0 && seq < 64; seq++ {
			e := Event{Seq: seq, Process: b.number(), N: b.number(), Kind: Kind(b.byte() % 26), Ref: b.number(), Model: b.name()}
			e.Wall, e.Mono, e.Age = now.Wall-b.number()*second, b.number(), b.number()*second
			e.Requests, e.Count.Input, e.Count.Output = int(b.number()), int(b.number()), int(b.number())
			e.Count, e.Text = e.Count.Clamp(), b.text()
			e.HasDay = b.byte()&1 == 1
			e.Day = state.DayUsage{Start: now.Wall - b.number()*second, Count: b.number(), Tokens: b.number()}
			if c.Add(&e) != nil || c.Tell(&e) != nil {
				return
			}
			c.Processes[e.Process] = Process{Silent: max(b.number(), 0) * second, Lease: b.number() * second}
			for name, said := range c.Said {
				c.Quotas[name], _ = said.Get(state.Program)
			}
		}
		if _, err := c.Image(1); err != nil {
			t.Fatal(err)
		}
	})
}
