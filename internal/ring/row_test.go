package ring

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// A row that held several times as many values as it does now gives storage back, too.
func TestRowFitsItsValues(t *testing.T) {
	var r row[int]
	for i := range 100_000 {
		r.push(i)
	}
	const live = 40_000
	r.drop(100_000 - live)
	for i := range 10 * live {
		r.push(i)
		r.drop(1)
		letAllocate(&r)
	}
	if room := cap(r.buf); room > live/2*5 {
		t.Errorf("%d values have room for %d", live, room)
	}
}

// letAllocate waits for the storage that a move of r is to have. A test pushes so fast that its
// goroutine may not have had a turn before the row has gone round.
func letAllocate[T any](r *row[T]) {
	if m := r.move; m != nil && m.ahead != nil {
		for m.ahead.Load() == nil {
			runtime.Gosched()
		}
	}
}

// storage tells storage of a row from other storage.
func storage[T any](r *row[T]) *T {
	if cap(r.buf) == 0 {
		return nil
	}
	return &r.buf[:1][0]
}

// copies counts the values that a push or a drop copies.
func copies(r *row[int], op func()) int {
	m, at, head, rest, done := r.move, storage(r), r.head, r.len(), 0
	if m != nil {
		done = len(m.to)
		rest = len(r.buf) - m.from - done
	}
	op()
	switch {
	case at != nil && (storage(r) != at || r.head < head) && r.len() > 0:
		return rest
	case r.move == nil:
		return 0
	case r.move != m || len(r.move.to) < done:
		return len(r.move.to)
	default:
		return len(r.move.to) - done
	}
}

// A row grows, slides and shrinks, and no push or drop copies more than a few of the values.
func TestRowMovesAFewValuesAtATime(t *testing.T) {
	const most = 1<<20 + 5000
	var r row[int]
	worst, pushed := 0, 0
	push := func() {
		worst = max(worst, copies(&r, func() { r.push(pushed) }))
		pushed++
	}
	drop := func(n int) { worst = max(worst, copies(&r, func() { r.drop(n) })) }
	check := func(doing string, live int) {
		t.Helper()
		if worst > 2*step {
			t.Errorf("%s: one call copied %d values, want at most %d", doing, worst, 2*step)
		}
		if r.len() != live || r.live()[0] != pushed-live || r.live()[live-1] != pushed-1 {
			t.Errorf("%s: %d values from %d to %d, want %d from %d to %d", doing, r.len(), r.live()[0], r.live()[live-1], live, pushed-live, pushed-1)
		}
		worst = 0
	}
	for range most {
		push()
	}
	check("growing", most)
	drop(most - 100_000)
	for range 1_000_000 {
		push()
		drop(1)
		letAllocate(&r)
	}
	check("sliding", 100_000)
	if room := cap(r.buf); room > 250_000 {
		t.Errorf("100000 values in a steady state have room for %d", room)
	}
	drop(80_000)
	for range 100_000 {
		drop(1)
		push()
		letAllocate(&r)
	}
	check("shrinking", 20_000)
	if room := cap(r.buf); room > 50_000 {
		t.Errorf("20000 values keep room for %d", room)
	}
	for r.len() > 1 {
		drop(1)
	}
	check("emptying", 1)
	if room := cap(r.buf); room > step {
		t.Errorf("one value keeps room for %d", room)
	}
}

// What a row moves to while few values are left is too small where many come before it has moved.
func TestRowOutgrowsAMove(t *testing.T) {
	var r row[int]
	next := 0
	for ; next < 200_000 || r.move != nil; next++ {
		r.push(next)
	}
	oldest := next - 20_000
	r.drop(oldest)
	if r.move == nil {
		t.Fatal("does not give storage back")
	}
	for ; r.len() < 400_000; next++ {
		if m := r.move; m != nil && m.to == nil {
			m.ahead = new(atomic.Pointer[[]int]) // the storage comes late
		}
		if n := copies(&r, func() { r.push(next) }); n > 2*step {
			t.Fatalf("push %d copied %d values, want at most %d", next, n, 2*step)
		}
		if m := r.move; m != nil && m.to != nil && cap(m.to) != m.room {
			t.Fatalf("push %d: storage for %d values became storage for %d", next, m.room, cap(m.to))
		}
	}
	for i, v := range r.live() {
		if v != oldest+i {
			t.Fatalf("value %d is %d", i, v)
		}
	}
}

// Values that are pinned while a row moves to the front of its storage stay as they are, though
// their places would soon be used again. In new storage nothing is pinned any more.
func TestRowIsPinnedDuringAMove(t *testing.T) {
	const live = 10_000
	var r row[int]
	next := 0
	cycle := func() {
		if n := copies(&r, func() { r.push(next) }); n > 2*step {
			t.Fatalf("push %d copied %d values, want at most %d", next, n, 2*step)
		}
		if next++; r.len() > live {
			r.drop(1)
		}
	}
	for next < 3*live || r.move == nil || r.move.ahead != nil || len(r.move.to) < live/2 {
		cycle()
	}
	reading := new(atomic.Bool)
	reading.Store(true)
	r.pinned = reading
	read, at := r.live(), storage(&r)
	before := slices.Clone(read)
	for range 5 * live {
		cycle()
	}
	if !slices.Equal(read, before) {
		t.Error("pinned values were overwritten")
	}
	is := storage(&r)
	if is == at {
		t.Error("moved within its storage while that was pinned")
	}
	if r.own(); storage(&r) != is {
		t.Error("new storage counts as pinned")
	}
}

// Storage that the goroutine which allocates it does not deliver in time is allocated in the call,
// early enough to move a few values at a time.
func TestRowDoesNotWaitForStorage(t *testing.T) {
	var r row[int]
	for i := range 300_000 {
		if m := r.move; m != nil && m.ahead != nil && m.to == nil {
			m.ahead = new(atomic.Pointer[[]int])
		}
		if n := copies(&r, func() { r.push(i) }); n > 2*step {
			t.Fatalf("push %d copied %d values, want at most %d", i, n, 2*step)
		}
	}
	for i, v := range r.live() {
		if v != i {
			t.Fatalf("value %d is %d", i, v)
		}
	}
}

// The goroutine that allocates storage ends by itself, also where time stands still.
func TestRowGrowsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r row[int]
		for i := range 50_000 {
			r.push(i)
		}
		synctest.Wait()
		if r.len() != 50_000 {
			t.Errorf("%d values", r.len())
		}
	})
}

func TestRowSteadyStateDoesNotAllocate(t *testing.T) {
	for _, live := range []int{1, 7, 100, 1024, 1025, 3000, 20_000} {
		var r row[int]
		cycle := func() {
			r.push(0)
			if r.len() > live {
				r.drop(1)
			}
		}
		for range 10 * live {
			cycle()
		}
		const calls = 100_000
		if n := testing.AllocsPerRun(1, func() {
			for range calls {
				cycle()
			}
		}); n > calls/step {
			t.Errorf("%d live values: %v allocations in %d calls", live, n, calls)
		}
		if room := cap(r.buf); room > live*5/2+step {
			t.Errorf("%d live values have room for %d", live, room)
		}
	}
}

// rowPlay plays operations on a row and on a slice, and looks whether both agree and whether pinned
// values stay as they are.
type rowPlay struct {
	t    testing.TB
	row  row[int]
	want []int
	next int

	reading      *atomic.Bool
	read, before []int
}

// play makes one of the operations. Most are small, so that they fall into the middle of moves.
func (p *rowPlay) play(op byte, n int) {
	at := 0
	if len(p.want) > 0 {
		at = n % len(p.want)
	}
	if op %= 8; op == 0 && len(p.want) > 20_000 {
		op = 4
	}
	switch op {
	case 0, 1:
		if op == 1 {
			n %= 150
		}
		for range n % 6000 {
			p.row.push(p.next)
			p.want = append(p.want, p.next)
			p.next++
		}
	case 2, 3:
		if op == 2 {
			n %= 150
		}
		if n %= min(len(p.want), 4000) + 1; n > 0 {
			p.row.drop(n)
			p.want = p.want[n:]
		}
	case 4: // as many leave as come
		for range min(n%6000, len(p.want)) {
			p.row.drop(1)
			p.row.push(p.next)
			p.want = append(p.want[1:], p.next)
			p.next++
		}
	case 5:
		for i := 0; i < 5 && len(p.want) > 0; i++ {
			p.row.own()
			p.row.set(at, -p.next)
			p.want[at] = -p.next
			p.next++
			at = (at + n + 1) % len(p.want)
		}
	case 6:
		for i := 0; i < 5 && len(p.want) > 1; i++ {
			at %= len(p.want)
			p.row.own()
			if i%2 == n%2 {
				p.row.remove(at)
				p.want = slices.Delete(p.want, at, at+1)
			} else {
				p.row.insert(at, p.next)
				p.want = slices.Insert(p.want, at, p.next)
				p.next++
			}
			at += n
		}
	case 7:
		if p.reading == nil {
			p.reading = new(atomic.Bool)
			p.reading.Store(true)
			p.row.pinned = p.reading
			p.read = p.row.live()
			p.before = slices.Clone(p.read)
		} else {
			p.unpin()
		}
	}
	if !slices.Equal(p.row.live(), p.want) {
		p.t.Fatalf("after operation %d with %d the row holds %d values that differ from the %d of the slice", op, n, p.row.len(), len(p.want))
	}
}

func (p *rowPlay) unpin() {
	if p.reading == nil {
		return
	}
	if !slices.Equal(p.read, p.before) {
		p.t.Fatal("pinned values were overwritten")
	}
	p.reading.Store(false)
	p.reading = nil
}

func TestRowAgreesWithSlice(t *testing.T) {
	for seed := range uint64(max(5, 25/racetest.Factor)) {
		random := rand.New(rand.NewPCG(seed, 15))
		p := rowPlay{t: t}
		for range 400 {
			op := byte(random.IntN(8))
			if p.row.move != nil && (op == 0 || op > 2 && op < 5) {
				op = []byte{1, 2, 5, 6, 7}[random.IntN(5)]
			}
			p.play(op, random.IntN(1<<15))
		}
		p.unpin()
	}
}

func FuzzRow(f *testing.F) {
	f.Add([]byte("\x00\x20\x00\x07\x00\x00\x04\x20\x00\x05\x01\x00\x07\x00\x00\x04\x30\x00"))
	f.Add([]byte("\x00\x17\x70\x00\x17\x70\x03\x13\x00\x04\x10\x00\x06\x01\x03\x00\x05\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := rowPlay{t: t}
		for i := 0; i+2 < len(data) && i < 300; i += 3 {
			p.play(data[i], int(data[i+1])<<8|int(data[i+2]))
		}
		p.unpin()
	})
}

func TestTouchStopsWhenStorageIsNotWantedAnyMore(t *testing.T) {
	asked := 0
	wanted := func() bool { asked++; return asked < 3 }
	if touch(make([]int64, 1<<20), wanted) || asked != 3 {
		t.Errorf("it wrote to all of it, or asked %d times, want 3", asked)
	}
	if !touch(make([]int64, 1<<20), func() bool { return true }) {
		t.Error("it did not write to all")
	}
}
