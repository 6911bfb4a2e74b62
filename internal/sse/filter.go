package sse

import "bytes"

// Filter passes a stream on without the events that a function selects. An event is dropped with
// all its lines and the blank line behind it. Comments in front of its first field pass at once,
// as they keep a connection alive. The bytes that pass are unchanged. A Filter holds an event back
// until its end, or until the event is larger than MaxEvent: then it passes. Create it with
// [NewFilter]. It is not safe for concurrent use.
type Filter struct {
	drop func(data []byte) bool

	state   filterState
	inLine  bool // the current line has begun
	cr      bool // the last piece ended with \r
	dropped bool // the last line ended an event that was dropped
	started bool // the first event is over; a byte order mark may precede that one

	pending []byte // the current event, as far as it was in earlier pieces
	size    int    // of the current event, in bytes
	data    []byte // buffer for joining several lines of data
}

// filterState is the treatment of the current line.
type filterState byte

const (
	between   filterState = iota // a comment between events, which passes
	holding                      // part of an event that is held back
	releasing                    // part of an event that passes because of its size
)

// NewFilter returns a Filter that drops the events with data for which drop reports true. drop
// must neither keep nor change the data, whose lines are joined by newlines.
func NewFilter(drop func(data []byte) bool) *Filter { return &Filter{drop: drop} }

// Append reads p, the next piece of the stream, and appends to dst the bytes that may pass. It
// neither keeps nor changes p, and returns the extended dst.
func (f *Filter) Append(dst, p []byte) []byte {
	rest := afterCR(&f.cr, p)
	if len(rest) < len(p) {
		dst = f.lineFeed(dst, p[:1])
	}
	from := 0 // the first byte of rest that is neither passed nor pending
	for l := linesOf(rest); l.i < len(rest); {
		begin := l.i
		line, ended := l.next()
		first := !f.inLine
		f.inLine = !ended
		f.dropped = false
		blank := first && ended && len(line) == 0
		if first && f.state == between && !blank && line[0] != ':' {
			f.state = holding
		}
		switch {
		case f.state == holding && blank:
			if f.dropped = f.drops(rest[from:begin]); !f.dropped {
				dst = append(append(dst, f.pending...), rest[from:l.i]...)
			}
			f.pending, from = f.pending[:0], l.i
		case f.state == holding:
			if f.size += l.i - begin; f.size <= MaxEvent {
				continue
			}
			dst = f.release(dst)
			fallthrough
		default:
			dst = append(dst, rest[from:l.i]...)
			from = l.i
		}
		if blank {
			f.state, f.size, f.started = between, 0, true
		}
	}
	f.pending = append(f.pending, rest[from:]...)
	return dst
}

// Finish marks the end of the stream and appends to dst the event that it cuts off, unless that
// is to be dropped. It returns the extended dst. The Filter must not be used afterwards.
func (f *Filter) Finish(dst []byte) []byte {
	if f.state == holding && !f.drops(nil) {
		dst = append(dst, f.pending...)
	}
	f.pending = nil
	return dst
}

// lineFeed treats the \n of a \r\n that was cut in two as the \r was treated.
func (f *Filter) lineFeed(dst, lf []byte) []byte {
	switch {
	case f.dropped:
		return dst
	case f.state == holding:
		f.pending = append(f.pending, lf...)
		if f.size++; f.size > MaxEvent {
			dst = f.release(dst)
		}
		return dst
	}
	return append(dst, lf...)
}

// release passes the pending bytes of an event that is too large to be held back.
func (f *Filter) release(dst []byte) []byte {
	dst = append(dst, f.pending...)
	f.pending, f.state = f.pending[:0], releasing
	return dst
}

// drops reports whether the event whose last part is p is to be dropped.
func (f *Filter) drops(p []byte) bool {
	if len(f.pending) > 0 {
		// The caller passes pending and p one after the other, so pending keeps its length.
		n := len(f.pending)
		f.pending = append(f.pending, p...)
		p, f.pending = f.pending, f.pending[:n]
	}
	if !f.started {
		p = bytes.TrimPrefix(p, byteOrderMark)
	}
	data, ok := f.dataIn(p)
	return ok && f.drop(data)
}

// dataIn returns the data of an event, if it has any.
func (f *Filter) dataIn(event []byte) (data []byte, ok bool) {
	joined := false
	for l := linesOf(event); l.i < len(event); {
		line, _ := l.next()
		value, isData := dataOf(line)
		switch {
		case !isData:
		case !ok:
			data, ok = value, true
		default:
			if !joined {
				f.data = append(f.data[:0], data...)
				joined = true
			}
			f.data = append(append(f.data, '\n'), value...)
			data = f.data
		}
	}
	return data, ok
}
