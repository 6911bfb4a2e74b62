package debounce_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// readBatchScript makes a script of any bytes.
func readBatchScript(next func() int) (s batchScript) {
	ms := func(n int) time.Duration { return time.Duration(next()%n) * time.Millisecond }
	s.kind = batchKind(next() % 3)
	s.delay = ms(8)
	if next()%3 > 0 {
		s.maxWait = s.delay + ms(12)
	}
	s.maxSize = next() % 5
	for range 4 {
		s.flushes = append(s.flushes, ms(14))
	}
	var at time.Duration
	for i := range next() % 28 {
		at += ms(5)
		op := batchOp{at: at + time.Duration(i+1)*time.Microsecond, what: "add"}
		switch n := next() % 32; {
		case n == 0:
			op.what = "stop"
		case n < 4:
			op.what = "flush"
		default:
			op.key = n % 4
		}
		if next()%4 == 0 {
			// In odd nanoseconds, so that a merge ends together with nothing else.
			op.merge = time.Millisecond + ms(6) + time.Duration(1<<i)%1009
		}
		s.ops = append(s.ops, op)
	}
	return s
}

// playBatches does what a script says, with the real thing.
func playBatches(t *testing.T, s batchScript) (r batchResult) {
	r.returns = make([]batchReturn, len(s.ops))
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		flush := func(values map[int][]int) {
			n := len(r.flushes)
			r.flushes = append(r.flushes, batchFlush{time.Since(start), values})
			time.Sleep(s.flushes[n%len(s.flushes)])
			if len(r.flushes) != n+1 {
				t.Errorf("flush %d began during flush %d", n+1, n)
			}
		}
		var c batchFlusher
		var add func(i int) bool
		if s.kind == batchList {
			b := debounce.NewBatcher(debounce.BatcherOptions{
				Delay: s.delay, MaxWait: s.maxWait, MaxSize: s.maxSize,
			}, func(values []int) { flush(map[int][]int{0: values}) })
			c, add = b, b.Add
		} else {
			opts := debounce.CoalescerOptions[[]int]{Delay: s.delay, MaxWait: s.maxWait, MaxSize: s.maxSize}
			if s.kind == batchMerged {
				opts.Merge = func(old, new []int) []int {
					if wait := s.ops[new[0]].merge; wait > 0 {
						time.Sleep(wait)
					}
					return append(old, new...)
				}
			}
			b := debounce.NewCoalescer(opts, flush)
			c, add = b, func(i int) bool { return b.Add(s.ops[i].key, []int{i}) }
		}
		for i, op := range s.ops {
			go func() {
				time.Sleep(op.at)
				ok := true
				switch op.what {
				case "add":
					ok = add(i)
				case "flush":
					c.Flush()
				case "stop":
					if err := c.Stop(t.Context()); err != nil {
						t.Errorf("Stop: %v", err)
					}
				}
				r.returns[i] = batchReturn{time.Since(start), ok}
			}()
		}
		time.Sleep(time.Hour)
		synctest.Wait()
	})
	return r
}

// checkBatches plays a script, and reports whether the model could judge it.
func checkBatches(t *testing.T, s batchScript) bool {
	t.Helper()
	got := playBatches(t, s)
	ok, tie, want := batchModelled(s, got)
	if !ok && !tie {
		t.Fatalf("script %+v\ngot  %+v\nwant %+v (until it differs)", s, got, want)
	}
	return ok
}

// Batches, and the instants at which they are flushed and Add, Flush and Stop
// return, are those of a model that knows only the rules.
func TestBatchOracle(t *testing.T) {
	scripts := 6000
	if testing.Short() || racetest.Factor > 1 {
		scripts = 600
	}
	judged := 0
	for seed := range scripts {
		random := rand.New(rand.NewPCG(uint64(seed), 4))
		if checkBatches(t, readBatchScript(func() int { return random.IntN(256) })) {
			judged++
		}
	}
	if judged < scripts*9/10 {
		t.Errorf("only %d of %d scripts could be judged", judged, scripts)
	}
}

func FuzzCoalescer(f *testing.F) {
	for seed := range 8 {
		random := rand.New(rand.NewPCG(uint64(seed), 5))
		text := make([]byte, 80)
		for i := range text {
			text[i] = byte(random.IntN(256))
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		checkBatches(t, readBatchScript(func() (b int) {
			if len(text) > 0 {
				b, text = int(text[0]), text[1:]
			}
			return b
		}))
	})
}
