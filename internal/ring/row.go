package ring

import (
	"reflect"
	"runtime"
	"sync/atomic"
)

const (
	minRoom = 8 // the smallest capacity that a row allocates

	// A row moves step values at a time, and stride values are pushed between two steps: a move
	// of n values is over after about n/31 pushes.
	step   = 512
	stride = 16
)

// row holds values in one piece of storage, grows at the back and shrinks at the front. It moves to
// larger storage, or to the front of its own, a step at a time while values are pushed, so that no
// push copies more than 2*step values. Only a change of pinned values moves all of them at once.
type row[T any] struct {
	buf  []T // buf[head:] are the live values
	head int
	due  int      // push makes room when buf is this long
	move *move[T] // nil when none is under way

	// pinned, where it is set and true, says that the values which were live when it was set are
	// read beside other calls, and must not be overwritten.
	pinned *atomic.Bool
}

// move is the way of a row to other storage. The newest value is copied last, in the step that ends
// the move.
type move[T any] struct {
	to    []T                  // the values copied so far,
	from  int                  // which begin here in the row's storage
	room  int                  // the capacity of to, once it is there
	ahead *atomic.Pointer[[]T] // gives to when that is allocated; nil where to is the front of the row's storage
}

func (r *row[T]) len() int { return len(r.buf) - r.head }

// live returns the live values. It has no room for more.
func (r *row[T]) live() []T { return r.buf[r.head:len(r.buf):len(r.buf)] }

func (r *row[T]) isPinned() bool { return r.pinned != nil && r.pinned.Load() }

func (r *row[T]) push(v T) {
	if len(r.buf) >= r.due {
		r.makeRoom()
	}
	r.buf = append(r.buf, v)
}

// roomFor is the capacity for n values: for as many again, so that a move is worth it, and for
// those that are pushed while the row moves to the front of its storage.
func roomFor(n int) int {
	if n <= step {
		return max(2*n, minRoom)
	}
	return 2*n + n/8*3 + step/2
}

// prepareAt is how long a row of the given capacity becomes until it prepares to move, and moveAt
// how long it becomes until it does.
func prepareAt(room int) int {
	if room <= 2*step {
		return room
	}
	return room / 4 * 3
}

func moveAt(room int) int { return room - room/8 }

// fill makes vals, which the row takes over, its values.
func (r *row[T]) fill(vals []T) { *r = row[T]{buf: vals, due: prepareAt(cap(vals))} }

// makeRoom makes sure that there is room for one more value.
func (r *row[T]) makeRoom() {
	switch live := r.len(); {
	case live > step:
		r.moveOn()
	case r.head > 0 && r.head >= live && !r.isPinned():
		n := copy(r.buf, r.buf[r.head:])
		r.buf, r.head = r.buf[:n], 0
		r.due, r.move = prepareAt(cap(r.buf)), nil
	default:
		r.resize()
	}
}

// resize moves all values to new storage.
func (r *row[T]) resize() {
	live := r.live()
	r.fill(append(make([]T, 0, roomFor(len(live))), live...))
}

// own makes sure that the values are not pinned, so that one may be changed in place.
func (r *row[T]) own() {
	if r.isPinned() {
		r.resize()
	}
}

// moveOn makes the next step of a move, and begins one where none is under way.
func (r *row[T]) moveOn() {
	full := len(r.buf) == cap(r.buf)
	switch m := r.move; {
	case m == nil && len(r.buf) < moveAt(cap(r.buf)):
		r.prepare()
		return
	case m == nil && r.slides(r.head) && !r.isPinned():
		r.move = &move[T]{to: r.buf[:0:r.head], from: r.head, room: r.head}
	case m != nil && m.fits(r):
	case full:
		r.resize()
		return
	default:
		r.relocate()
	}
	m := r.move
	if !m.takeStorage(len(r.buf) >= cap(r.buf)-cap(r.buf)/24) {
		r.due = len(r.buf) + stride
		return
	}
	next := m.next(r.head)
	n := min(step, len(r.buf)-next)
	if full {
		n = len(r.buf) - next
	}
	m.to = append(m.to, r.buf[next:next+n]...)
	if next+n < len(r.buf) {
		r.due = min(len(r.buf)+stride, cap(r.buf))
		return
	}
	if m.ahead != nil {
		r.buf, r.pinned = m.to, nil
	} else {
		r.buf = r.buf[:len(m.to)]
	}
	r.head -= m.from
	r.due, r.move = prepareAt(cap(r.buf)), nil
}

// slides reports whether the row can move to the front of its storage when so much is free there:
// there is to be room for its values, and for those pushed until the move is over.
func (r *row[T]) slides(free int) bool { return free >= r.len()+r.len()/16+2*stride }

// prepare has storage allocated where the row will probably not be able to move to the front of its
// own when it has to move, or its own is too large.
func (r *row[T]) prepare() {
	r.due = moveAt(cap(r.buf))
	enough := roomFor(r.len())
	if !r.slides(r.head+r.due-len(r.buf)) || cap(r.buf) > enough+enough/16 {
		r.relocate()
	}
}

// relocate begins a move to new storage.
func (r *row[T]) relocate() {
	room := roomFor(r.len())
	if r.len() > cap(r.buf)/3*2 { // the row grows
		room = 2 * cap(r.buf)
	}
	r.move = &move[T]{from: r.head, room: room, ahead: allocate[T](room)}
}

// allocate makes storage beside other calls, unless somebody else has: large storage may have to be
// cleared, and its memory is provided as it is first written to. The goroutine ends when that is
// done.
func allocate[T any](room int) *atomic.Pointer[[]T] {
	storage := new(atomic.Pointer[[]T])
	go func() {
		buf := make([]T, room)
		if touch(buf, func() bool { return storage.Load() == nil }) {
			buf = buf[:0]
			storage.CompareAndSwap(nil, &buf)
		}
	}()
	return storage
}

// fits reports whether the move has room for the values of a row, and for those pushed until it is
// over. Values that are read beside other calls do not move to the front: what lies behind would be
// overwritten.
func (m *move[T]) fits(r *row[T]) bool {
	next := m.next(r.head)
	return m.room >= len(r.buf)-m.from+(len(r.buf)-next)/16 && (m.ahead != nil || !r.isPinned())
}

// takeStorage reports whether there is storage to copy to. Where there is no time to wait for what
// is being allocated, it allocates it itself.
func (m *move[T]) takeStorage(now bool) bool {
	if m.to != nil {
		return true
	}
	if now && m.ahead.CompareAndSwap(nil, &m.to) {
		m.to = make([]T, 0, m.room)
	} else if buf := m.ahead.Load(); buf != nil {
		m.to = *buf
	}
	return m.to != nil
}

// next returns where the values begin that are still to be copied. If those copied so far have all
// been dropped, the copies begin anew.
func (m *move[T]) next(head int) int {
	if m.from+len(m.to) < head {
		m.from, m.to = head, m.to[:0]
	}
	return m.from + len(m.to)
}

// drop removes the n oldest values, and gives back storage that has become far larger than the rest
// needs.
func (r *row[T]) drop(n int) {
	r.head += n
	if live := r.len(); 8*live < cap(r.buf) || live == 0 {
		r.giveBack()
	}
}

func (r *row[T]) giveBack() {
	switch live := r.len(); {
	case live == 0:
		*r = row[T]{}
	case cap(r.buf) <= step:
	case live <= step:
		r.resize()
	case r.move == nil:
		r.relocate()
	default:
		r.moveOn()
	}
}

// clear removes all values, and keeps the storage.
func (r *row[T]) clear() {
	r.buf, r.head = r.buf[:0], 0
	r.due, r.move = prepareAt(cap(r.buf)), nil
}

// set changes the i-th oldest value.
func (r *row[T]) set(i int, v T) {
	*r.at(i) = v
	r.changed(i)
}

// at returns the i-th oldest value. Who changes it calls changed.
func (r *row[T]) at(i int) *T { return &r.buf[r.head+i] }

// changed has the copies of a move under way follow the i-th oldest value.
func (r *row[T]) changed(i int) {
	i += r.head
	if m := r.move; m != nil && i < m.from+len(m.to) {
		m.to[i-m.from] = r.buf[i]
	}
}

// remove takes the i-th oldest value out, at the cost of those behind it.
func (r *row[T]) remove(i int) {
	i += r.head
	r.buf = append(r.buf[:i], r.buf[i+1:]...)
	r.recopy(i)
}

// insert puts a value before the i-th oldest, at the cost of those behind it.
func (r *row[T]) insert(i int, v T) {
	r.push(v)
	r.bringForward(i)
}

// bringForward takes the newest value out and puts it before the i-th oldest.
func (r *row[T]) bringForward(i int) {
	i += r.head
	last := len(r.buf) - 1
	v := r.buf[last]
	copy(r.buf[i+1:], r.buf[i:last])
	r.buf[i] = v
	r.recopy(i)
}

// recopy makes the copies of a move under way again, from the place of a change in the row's
// storage on: those behind it have changed places, and the newest value is not to be copied yet.
func (r *row[T]) recopy(i int) {
	m := r.move
	if m == nil {
		return
	}
	end := max(min(m.from+len(m.to), len(r.buf)-1), m.from)
	m.to = m.to[:end-m.from]
	if i < end {
		copy(m.to[i-m.from:], r.buf[i:end])
	}
}

// Room returns an empty slice with room for n values. Each page of its memory has been written
// to: the system provides a page at the first write, and the caller may be able to pay for that
// here rather than in later appends, under a lock.
func Room[T any](n int) []T {
	buf := make([]T, n)
	touch(buf, func() bool { return true })
	return buf[:0]
}

// touch writes to each page of new storage, as long as that is wanted, and reports whether it wrote
// to all. Other goroutines come in between: the garbage collector cannot stop a loop that writes
// pointers, and would hold up all of them.
func touch[T any](buf []T, wanted func() bool) bool {
	const page = 4096 // bytes; larger pages are touched more than once
	var zero T
	stride := 1 + page/(1+int(reflect.TypeFor[T]().Size()))
	for i, touched := 0, 0; i < len(buf); i += stride {
		buf[i] = zero
		if touched++; touched%16 == 0 {
			if !wanted() {
				return false
			}
			runtime.Gosched()
		}
	}
	return wanted()
}
