package llmhttp

import "bytes"

// hider passes a stream of events on without some. An event goes with all its lines, the
// blank one behind it included; but comments in front of its first field, as they keep
// a connection alive, go on at once. What it passes on it does not change. How the
// stream is cut into pieces changes nothing. A hider has one user at a time.
type hider struct {
	drop func(data []byte) bool // of an event with data; whether it goes

	state   hiding
	inLine  bool // the line at hand has begun
	cr      bool // the last piece ended with \r
	dropped bool // the last line ended an event that went
	started bool // the first event is over; before, there may be a byte order mark

	held []byte // of the event at hand, what earlier pieces had
	size int    // of the event at hand
	data []byte // room to join the data of several lines
}

// hiding is what happens to the line at hand.
type hiding byte

const (
	between  hiding = iota // it is a comment between events
	holding                // it is held back, as is all of its event
	releases               // it goes on, as does all of its event: that is too large to be held
)

func newHider(drop func(data []byte) bool) *hider { return &hider{drop: drop} }

// filter appends to dst what may go on of the stream, of which p is the next piece.
// It holds back an event until its end or, when that does not come, until it is larger than
// 64 KiB or the stream ends.
func (h *hider) filter(dst, p []byte, atEOF bool) []byte {
	rest := afterCR(&h.cr, p)
	if len(rest) < len(p) {
		dst = h.lineFeed(dst, p[:1])
	}
	from := 0 // where in rest that begins which is neither passed on nor held
	for l := linesOf(rest); l.i < len(rest); {
		begin := l.i
		line, ended := l.next()
		first := !h.inLine
		h.inLine = !ended
		h.dropped = false
		blank := first && ended && len(line) == 0
		if first && h.state == between && !blank && line[0] != ':' {
			h.state = holding
		}
		switch {
		case h.state == holding && blank:
			if h.dropped = h.drops(rest[from:begin]); !h.dropped {
				dst = append(append(dst, h.held...), rest[from:l.i]...)
			}
			h.held, from = h.held[:0], l.i
		case h.state == holding:
			if h.size += l.i - begin; h.size <= maxEvent {
				continue
			}
			dst = h.release(dst)
			fallthrough
		default:
			dst = append(dst, rest[from:l.i]...)
			from = l.i
		}
		if blank {
			h.state, h.size, h.started = between, 0, true
		}
	}
	if !atEOF {
		h.held = append(h.held, rest[from:]...)
		return dst
	}
	if h.state == holding && !h.drops(rest[from:]) {
		dst = append(append(dst, h.held...), rest[from:]...)
	}
	h.held = nil
	return dst
}

// lineFeed passes on the \n of a \r\n that was cut in two, which goes where the \r went.
func (h *hider) lineFeed(dst, lf []byte) []byte {
	switch {
	case h.dropped:
		return dst
	case h.state == holding:
		h.held = append(h.held, lf...)
		if h.size++; h.size > maxEvent {
			dst = h.release(dst)
		}
		return dst
	}
	return append(dst, lf...)
}

// release lets go of what is held.
func (h *hider) release(dst []byte) []byte {
	dst = append(dst, h.held...)
	h.held, h.state = h.held[:0], releases
	return dst
}

// drops reports whether the event goes of which p is the last part.
func (h *hider) drops(p []byte) bool {
	if len(h.held) > 0 {
		// It is passed on from both, and not twice.
		n := len(h.held)
		h.held = append(h.held, p...)
		p, h.held = h.held, h.held[:n]
	}
	if !h.started {
		p = bytes.TrimPrefix(p, byteOrderMark)
	}
	data, ok := h.dataIn(p)
	return ok && h.drop(data)
}

// dataIn returns the data of an event.
func (h *hider) dataIn(event []byte) (data []byte, ok bool) {
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
				h.data = append(h.data[:0], data...)
				joined = true
			}
			h.data = append(append(h.data, '\n'), value...)
			data = h.data
		}
	}
	return data, ok
}
