package llmhttp

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
)

// The opcodes of frames, RFC 6455 section 5.2. Those from closeFrame on are of control frames.
const (
	continuationFrame = 0x0
	textFrame         = 0x1
	binaryFrame       = 0x2
	closeFrame        = 0x8
	pingFrame         = 0x9
	pongFrame         = 0xA
)

// The codes of close frames, RFC 6455 section 7.4.1.
const (
	closedForProtocol = 1002
	closedForSize     = 1009
)

const (
	maxFrameHeader = 14  // bytes: two, eight of a length, and four of a mask
	maxControl     = 125 // bytes of the payload of a control frame
)

// frameReader reads the frames of one direction of a WebSocket while their bytes pass by, without
// holding them. How the bytes are cut into pieces changes nothing. The zero frameReader reads the
// frames of a server. It is not safe for concurrent use.
type frameReader struct {
	masked bool // the direction is that of the client, whose frames are masked

	header [maxFrameHeader]byte
	have   int // bytes of an unfinished header
	read   int // bytes of the last finished one

	head frameHead // of the current frame
	left uint64    // bytes of its payload that are to come
	mask [4]byte
	turn int // the byte of the mask that is next

	open bool // a message has begun, and its last frame is to come
}

// frameHead is the header of a frame.
type frameHead struct {
	final bool // the last frame of its message
	code  byte
	size  uint64 // bytes of the payload
}

// isControl reports whether the frame is a ping, a pong or a close, and no part of a message.
func (h *frameHead) isControl() bool { return h.code >= closeFrame }

// framePart is a part of a frame: bytes of its header, or of its payload, never of both.
type framePart struct {
	bytes   []byte // as they passed
	payload bool   // they are of the payload
	begins  bool   // the header is complete with them, and stands in frameReader.head
	ends    bool   // the frame is complete with them
}

// The violations of the protocol that make the rest of a connection unreadable.
var (
	errReserved = errors.New("reserved bits or opcode")
	errControl  = errors.New("control frame is fragmented or too large")
	errMask     = errors.New("frame is masked by the server, or not by the client")
	errOrder    = errors.New("frame continues no message, or interrupts one")
	errLength   = errors.New("length of a frame is negative")
)

// next reads the first part of p, which is not empty.
func (r *frameReader) next(p []byte) (part framePart, err error) {
	if r.left > 0 {
		n := int(min(uint64(len(p)), r.left))
		r.left -= uint64(n)
		part = framePart{bytes: p[:n], payload: true, ends: r.left == 0}
	} else {
		n := 0
		for n < len(p) && r.have < r.headerSize() {
			r.header[r.have] = p[n]
			n++
			r.have++
		}
		part = framePart{bytes: p[:n], begins: r.have == r.headerSize()}
		if part.begins {
			if err = r.begin(); err != nil {
				return part, err
			}
			part.ends = r.left == 0
		}
	}
	if part.ends && !r.head.isControl() {
		r.open = !r.head.final
	}
	return part, nil
}

// headerSize returns the length of the header as far as its first bytes tell it.
func (r *frameReader) headerSize() int {
	if r.have < 2 {
		return 2
	}
	size := 2
	switch r.header[1] & 0x7F {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if r.header[1]&0x80 != 0 {
		size += len(r.mask)
	}
	return size
}

// begin reads a complete header.
func (r *frameReader) begin() error {
	b := r.header[:r.have]
	r.have, r.read = 0, r.have
	h := frameHead{final: b[0]&0x80 != 0, code: b[0] & 0x0F, size: uint64(b[1] & 0x7F)}
	switch h.size {
	case 126:
		h.size = uint64(binary.BigEndian.Uint16(b[2:]))
	case 127:
		h.size = binary.BigEndian.Uint64(b[2:])
	}
	switch {
	case b[0]&0x70 != 0, h.code > binaryFrame && h.code < closeFrame, h.code > pongFrame:
		return errReserved
	case h.isControl() && (!h.final || h.size > maxControl):
		return errControl
	case b[1]&0x80 != 0 != r.masked:
		return errMask
	case !h.isControl() && (h.code == continuationFrame) != r.open:
		return errOrder
	case h.size>>63 != 0:
		return errLength
	}
	if r.masked {
		copy(r.mask[:], b[len(b)-len(r.mask):])
	}
	r.head, r.left, r.turn = h, h.size, 0
	return nil
}

// headerBytes returns the header of the current frame, until the next one begins.
func (r *frameReader) headerBytes() []byte { return r.header[:r.read] }

// unmask appends the content of the next bytes of the payload to dst.
func (r *frameReader) unmask(dst, payload []byte) []byte {
	if !r.masked {
		return append(dst, payload...)
	}
	for _, b := range payload {
		dst = append(dst, b^r.mask[r.turn])
		r.turn = (r.turn + 1) % len(r.mask)
	}
	return dst
}

// betweenFrames reports whether another frame may be put in here.
func (r *frameReader) betweenFrames() bool { return r.left == 0 && r.have == 0 }

// appendFrame appends a whole message, or a control frame, to dst.
func appendFrame(dst []byte, code byte, payload []byte, masked bool) []byte {
	dst = append(dst, 0x80|code)
	size := len(dst)
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
	}
	if !masked {
		return append(dst, payload...)
	}
	dst[size] |= 0x80
	var mask [4]byte
	rand.Read(mask[:])
	dst = append(dst, mask[:]...)
	for i, b := range payload {
		dst = append(dst, b^mask[i%len(mask)])
	}
	return dst
}
