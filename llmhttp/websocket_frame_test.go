package llmhttp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// wholeFrame is a frame as the frameReader told it.
type wholeFrame struct {
	final   bool
	code    byte
	content string
}

// readFrames reads frames that come in pieces. It fails if a part is not what was put in.
func readFrames(t testing.TB, masked bool, pieces ...[]byte) (all []wholeFrame, r *frameReader, err error) {
	t.Helper()
	r = &frameReader{masked: masked}
	var header, content []byte
	for _, p := range pieces {
		for len(p) > 0 {
			part, err := r.next(p)
			if len(part.bytes) == 0 || !bytes.HasPrefix(p, part.bytes) {
				t.Fatalf("the part %x is not the beginning of %x", part.bytes, p)
			}
			p = p[len(part.bytes):]
			if part.payload {
				content = r.unmask(content, part.bytes)
			} else {
				header = append(header, part.bytes...)
			}
			if err != nil {
				return all, r, err
			}
			if part.begins {
				if got := r.headerBytes(); !bytes.Equal(got, header) {
					t.Fatalf("header %x, read %x", got, header)
				}
			}
			if part.ends {
				all = append(all, wholeFrame{r.head.final, r.head.code, string(content)})
				header, content = nil, nil
			}
			if part.ends != r.betweenFrames() {
				t.Fatalf("a frame ends: %t, between frames: %t", part.ends, r.betweenFrames())
			}
		}
	}
	return all, r, nil
}

// frameBytes returns a frame of any kind.
func frameBytes(final bool, code byte, masked bool, content []byte) []byte {
	b := appendFrame(nil, code, content, masked)
	if !final {
		b[0] &^= 0x80
	}
	return b
}

// All frames are read, wherever they are cut into two or three pieces, and in pieces of one byte.
func TestFramesInPieces(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 20)
	for _, masked := range []bool{false, true} {
		var stream []byte
		want := []wholeFrame{
			{true, textFrame, ""}, {false, textFrame, "Hel"}, {true, pingFrame, "?"}, {false, continuationFrame, ""},
			{true, pongFrame, string(long[:maxControl])}, {true, continuationFrame, "lo"},
			{true, binaryFrame, string(long)}, {true, closeFrame, "\x03\xE8bye"},
		}
		for _, f := range want {
			stream = append(stream, frameBytes(f.final, f.code, masked, []byte(f.content))...)
		}
		check := func(pieces ...[]byte) {
			t.Helper()
			got, r, err := readFrames(t, masked, pieces...)
			if err != nil || !slices.Equal(got, want) || r.open || !r.betweenFrames() {
				t.Fatalf("masked %t, %d pieces: got %+v, %v", masked, len(pieces), got, err)
			}
		}
		check(stream)
		var single [][]byte
		for i := range stream {
			single = append(single, stream[i:i+1])
			check(stream[:i], stream[i:])
			j := i + rand.IntN(len(stream)-i+1)
			check(stream[:i], stream[i:j], stream[j:])
		}
		check(single...)
	}
}

// The three forms of a length are read, also where a shorter one would do.
func TestFrameLengths(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 20} {
		content := bytes.Repeat([]byte{'x'}, size)
		for _, masked := range []bool{false, true} {
			got, _, err := readFrames(t, masked, frameBytes(true, binaryFrame, masked, content))
			if err != nil || len(got) != 1 || got[0].content != string(content) {
				t.Errorf("%d bytes, masked %t: %d frames, %v", size, masked, len(got), err)
			}
		}
	}
	long := append([]byte{0x81, 127, 0, 0, 0, 0, 0, 0, 0, 2}, "hi"...)
	if got, _, err := readFrames(t, false, long); err != nil || len(got) != 1 || got[0].content != "hi" {
		t.Errorf("got %+v, %v", got, err)
	}
	r := new(frameReader)
	if _, err := r.next(binary.BigEndian.AppendUint64([]byte{0x82, 127}, 1<<62)); err != nil || r.left != 1<<62 {
		t.Errorf("%d bytes are left, %v", r.left, err)
	}
}

// What breaks the protocol is an error at the end of the header.
func TestFrameViolations(t *testing.T) {
	for _, test := range []struct {
		name   string
		masked bool
		bytes  []byte
		want   error
	}{
		{"a compressed message", false, []byte{0xC1, 0}, errReserved},
		{"a reserved opcode", false, []byte{0x83, 0}, errReserved},
		{"a reserved opcode of a control frame", false, []byte{0x8B, 0}, errReserved},
		{"a fragmented ping", false, []byte{0x09, 0}, errControl},
		{"a large ping", false, []byte{0x89, 126, 0, 126}, errControl},
		{"a masked frame of the server", false, []byte{0x81, 0x80, 1, 2, 3, 4}, errMask},
		{"an unmasked frame of the client", true, []byte{0x81, 0}, errMask},
		{"a continuation of nothing", false, []byte{0x80, 0}, errOrder},
		{"a message within another one", false, []byte{0x01, 0, 0x81, 0}, errOrder},
		{"a message within another one, after a ping", false, []byte{0x01, 0, 0x89, 0, 0x82, 0}, errOrder},
		{"a negative length", false, []byte{0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, errLength},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, _, err := readFrames(t, test.masked, test.bytes); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// However a stream is cut, the same frames come out, or the same error.
func FuzzFrameReader(f *testing.F) {
	f.Add([]byte{0x81, 2, 'h', 'i', 0x89, 0}, uint8(1), false)
	f.Add(frameBytes(false, textFrame, true, []byte("masked")), uint8(3), true)
	f.Add(append([]byte{0x82, 126, 0, 200}, make([]byte, 200)...), uint8(7), false)
	f.Add([]byte{0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0}, uint8(2), false)
	f.Fuzz(func(t *testing.T, stream []byte, size uint8, masked bool) {
		want, whole, wantErr := readFrames(t, masked, stream)
		pieces := slices.Collect(slices.Chunk(stream, int(size)%19+1))
		got, cut, err := readFrames(t, masked, pieces...)
		if !slices.Equal(got, want) || !errors.Is(err, wantErr) {
			t.Fatalf("whole: %+v, %v; cut: %+v, %v", want, wantErr, got, err)
		}
		if whole.left != cut.left || whole.open != cut.open || whole.betweenFrames() != cut.betweenFrames() {
			t.Fatalf("whole: %+v; cut: %+v", whole, cut)
		}
		if err != nil {
			return
		}
		for _, frame := range got { // what is written is read as it was
			again, _, err := readFrames(t, masked, frameBytes(frame.final && frame.code != 0, max(frame.code, 1), masked, []byte(frame.content)))
			if err != nil || len(again) != 1 || again[0].content != frame.content {
				t.Fatalf("%+v is read again as %+v, %v", frame, again, err)
			}
		}
	})
}
