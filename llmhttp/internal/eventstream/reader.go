// Package eventstream reads application/vnd.amazon.eventstream, the binary frames in which Amazon
// Bedrock streams its answers, as they pass by. Package llmhttp uses it.
//
// See https://smithy.io/2.0/aws/amazon-eventstream.html, read 2026-11-25: a message is its length
// and that of its headers, a CRC of these two, the headers, the payload, and a CRC of all of it.
package eventstream

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

const (
	preludeSize = 12 // both lengths and their checksum
	sumSize     = 4
	minMessage  = preludeSize + sumSize
	maxHeaders  = 128 << 10
	// maxMessage is the largest message that is valid: its payload has at most 24 MiB.
	maxMessage = 24<<20 + maxHeaders + minMessage

	// MaxKept is the size in bytes up to which a message is held. Of a larger one only the checksum
	// and the size are computed.
	MaxKept = 1 << 20
)

// The errors of Feed. No part of the stream is in them.
var (
	// ErrChecksum says that the bytes of a message do not have the checksum that it states.
	ErrChecksum = errors.New("event stream: wrong checksum")
	// ErrMalformed says that a message has impossible lengths or headers.
	ErrMalformed = errors.New("event stream: malformed message")
)

// Message is one message of a stream. Its checksums were right.
type Message struct {
	// Type is "event", "exception" or "error", from the header :message-type.
	Type string
	// Name is which event, exception or error it is, such as "chunk", from the headers
	// :event-type, :exception-type and :error-code.
	Name string
	// Payload is valid until the function that receives the message returns. It is nil, and Type
	// and Name are empty, for a message larger than MaxKept.
	Payload []byte
	// Size is the length of the payload in bytes.
	Size int
}

// Reader reads a stream in pieces of any size. How it is cut into pieces changes nothing. It holds
// at most one message, and that only up to MaxKept. Create it with [New]. It is not safe for
// concurrent use.
type Reader struct {
	emit func(Message)

	held []byte // the current message, as far as it was in earlier pieces
	err  error

	// Of a message larger than MaxKept:
	left   int    // bytes until its checksum; zero for other messages
	size   int    // of its payload
	sum    uint32 // of its bytes so far
	stated bool   // its own checksum is next
}

// New returns a Reader that passes each message to emit as soon as it is complete.
func New(emit func(Message)) *Reader { return &Reader{emit: emit} }

// Open reports that the stream ended, or has come so far, within a message.
func (r *Reader) Open() bool { return len(r.held) > 0 || r.left > 0 || r.stated }

// Feed reads the next piece. It neither keeps nor changes it. After an error, which it returns
// again, it reads no further.
func (r *Reader) Feed(p []byte) error {
	for r.err == nil && len(p) > 0 {
		switch {
		case r.left > 0:
			n := min(r.left, len(p))
			r.sum = crc32.Update(r.sum, crc32.IEEETable, p[:n])
			r.left -= n
			r.stated = r.left == 0
			p = p[n:]
		case r.stated:
			p = r.hold(p, sumSize)
			if len(r.held) == sumSize {
				r.endLarge()
			}
		case len(r.held) == 0 && len(p) >= preludeSize && r.whole(p):
			size := int(binary.BigEndian.Uint32(p))
			r.message(p[:size])
			p = p[size:]
		default:
			p = r.collect(p)
		}
	}
	return r.err
}

// hold takes bytes of p into held until it has size bytes. It returns the rest.
func (r *Reader) hold(p []byte, size int) []byte {
	n := max(min(size-len(r.held), len(p)), 0)
	r.held = append(r.held, p[:n]...)
	return p[n:]
}

// collect takes a part of a message that comes in several pieces, and returns the rest of p.
func (r *Reader) collect(p []byte) []byte {
	if p = r.hold(p, preludeSize); len(r.held) < preludeSize {
		return p
	}
	size, ok := r.prelude(r.held)
	switch {
	case !ok:
		return nil
	case size > MaxKept:
		r.beginLarge(size)
		return p
	}
	if p = r.hold(p, size); len(r.held) == size {
		r.message(r.held)
		r.held = r.held[:0]
	}
	return p
}

// whole reports whether p, which has a prelude, begins with a whole message that is kept.
func (r *Reader) whole(p []byte) bool {
	size, ok := r.prelude(p)
	return ok && size <= MaxKept && size <= len(p)
}

// prelude returns the size of the message that p begins with, and false, with an error set, if it
// is no message.
func (r *Reader) prelude(p []byte) (size int, ok bool) {
	total, headers := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
	switch {
	case crc32.ChecksumIEEE(p[:8]) != binary.BigEndian.Uint32(p[8:]):
		r.err = ErrChecksum
	case total < minMessage || total > maxMessage || headers > maxHeaders || headers > total-minMessage:
		r.err = ErrMalformed
	}
	return int(total), r.err == nil
}

// beginLarge begins a message that is not kept, of which held has the prelude.
func (r *Reader) beginLarge(size int) {
	r.sum = crc32.ChecksumIEEE(r.held)
	r.left = size - preludeSize - sumSize
	r.size = r.left - int(binary.BigEndian.Uint32(r.held[4:]))
	r.held = r.held[:0]
}

// endLarge ends a message that is not kept, of which held has the checksum.
func (r *Reader) endLarge() {
	stated := binary.BigEndian.Uint32(r.held)
	r.held, r.stated = r.held[:0], false
	if stated != r.sum {
		r.err = ErrChecksum
		return
	}
	r.emit(Message{Size: r.size})
}

// message passes on a whole message whose prelude is valid.
func (r *Reader) message(all []byte) {
	body, stated := all[:len(all)-sumSize], all[len(all)-sumSize:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(stated) {
		r.err = ErrChecksum
		return
	}
	headers := int(binary.BigEndian.Uint32(all[4:]))
	m := Message{Payload: body[preludeSize+headers:]}
	m.Size = len(m.Payload)
	if !m.readHeaders(body[preludeSize : preludeSize+headers]) {
		r.err = ErrMalformed
		return
	}
	r.emit(m)
}

// The types of headers whose values have no fixed size. The others are in fixedSizes.
const (
	bytesType  = 6
	stringType = 7
)

// fixedSizes are the sizes of the values by the types of headers: true, false, a byte, integers of
// 16, 32 and 64 bits, then bytes and strings, a time and a UUID.
var fixedSizes = [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}

// readHeaders reads the headers of a message. It returns false if they are malformed.
func (m *Message) readHeaders(p []byte) bool {
	for len(p) > 0 {
		n := int(p[0])
		if n == 0 || len(p) < n+2 {
			return false
		}
		name, kind := p[1:n+1], p[n+1]
		p = p[n+2:]
		if int(kind) >= len(fixedSizes) {
			return false
		}
		size := fixedSizes[kind]
		if kind == bytesType || kind == stringType {
			if len(p) < 2 {
				return false
			}
			size = int(binary.BigEndian.Uint16(p))
			p = p[2:]
		}
		if len(p) < size {
			return false
		}
		value := p[:size]
		p = p[size:]
		if kind != stringType {
			continue
		}
		switch string(name) {
		case ":message-type":
			m.Type = string(value)
		case ":event-type", ":exception-type", ":error-code":
			m.Name = string(value)
		}
	}
	return true
}
