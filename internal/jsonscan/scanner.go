package jsonscan

import (
	"bytes"
	"math"
	"sync"
)

const (
	maxNesting = 10_000 // open objects and arrays, as in encoding/json
	maxKeys    = 16     // keys in a path
	maxKey     = 64     // bytes of a key in a path
	maxText    = 256    // bytes of Value.Text
)

// The states of a Scanner: the token that may follow. From inString on the scanner is inside a
// token that an earlier piece began.
const (
	wantValue    byte = iota
	wantElement       // after [
	wantKey           // after a comma in an object
	wantFirstKey      // after {
	wantColon
	wantComma // or the closing bracket
	inString
	inNumber
	inWord // null, true, false
	invalid
)

// Scanner reads JSON texts, one after the other with or without white space between them, in
// pieces of any size. It reports each value as soon as the value is complete; the way in which
// the text is cut into pieces changes nothing of that. Feeding allocates nothing.
//
// A Scanner does not check the grammar of numbers, characters and escapes in strings. Anything
// else that is no JSON, and nesting deeper than 10,000 levels, makes it invalid: it then reports
// nothing until Reset. Create it with [New]. It is not safe for concurrent use.
type Scanner struct {
	emit func(Value)

	strings int // bytes of all strings and keys so far, saturating

	want   byte
	key    bool // the current string is a key
	object bool // the innermost open bracket is that of an object
	depth  int
	outer  [(maxNesting + 63) / 64]uint64 // object, of the levels outside the innermost

	path  keyPath
	token token
}

// free holds released scanners. A scanner is mostly buffers, which are too large to be allocated
// for each call.
var free = sync.Pool{New: func() any { return new(Scanner) }}

// New returns a Scanner that passes each value to emit. emit must not use the Scanner.
func New(emit func(Value)) *Scanner {
	s := free.Get().(*Scanner)
	s.emit = emit
	s.Reset()
	return s
}

// Release gives the Scanner back for reuse by New. The Scanner must not be used afterwards. A
// Scanner that is not released is garbage-collected like any other value.
func (s *Scanner) Release() {
	s.emit = nil
	free.Put(s)
}

// Reset makes the Scanner ready for another text.
func (s *Scanner) Reset() {
	// The arrays are large and need no clearing.
	s.strings, s.want, s.object, s.depth = 0, wantValue, false, 0
	s.path.reset()
	s.token.begin()
}

// Invalid reports whether the text so far is no JSON or nests too deeply; after End, also
// whether it was cut off.
func (s *Scanner) Invalid() bool { return s.want == invalid }

// Between reports whether the text so far ends between two texts: after white space alone, or
// behind an object or array that is complete.
func (s *Scanner) Between() bool { return s.want == wantValue && s.depth == 0 }

// StringBytes returns the length of all strings and keys that were read to their end, in bytes
// of UTF-8 after unescaping.
func (s *Scanner) StringBytes() int { return s.strings }

// PartialBytes returns the length of the string whose end has not been read, as far as it was
// read; zero outside a string.
func (s *Scanner) PartialBytes() int {
	if s.want != inString {
		return 0
	}
	return s.token.size
}

// End marks the end of the text. It reports a number at the very end, and makes the Scanner
// invalid when the text is incomplete.
func (s *Scanner) End() {
	if s.want == inNumber && s.depth == 0 {
		s.scalar(Number, s.token.kept(), 0)
	}
	if s.want != wantValue || s.depth > 0 {
		s.want = invalid
	}
}

// Feed reads the next piece. It neither keeps nor changes the piece.
func (s *Scanner) Feed(p []byte) {
	i := s.resume(p)
	for i < len(p) {
		c := p[i]
		if c <= ' ' {
			if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				s.want = invalid
				return
			}
			i++
			continue
		}
		switch s.want {
		case wantColon:
			if c != ':' {
				s.want = invalid
				return
			}
			s.want = wantValue
			i++
		case wantComma:
			switch {
			case c != ',':
				s.close(c)
			case s.object:
				s.want = wantKey
			default:
				s.want = wantValue
			}
			i++
		case wantKey, wantFirstKey:
			switch {
			case c == '"':
				s.key = true
				i = s.beginString(p, i+1)
			case s.want == wantFirstKey:
				s.close(c)
				i++
			default:
				s.want = invalid
			}
		case wantValue, wantElement:
			i = s.begin(p, i)
		default:
			return
		}
	}
}

// begin reads a value from p[i:], as much of it as p has, or the bracket that ends an empty
// array. Like the functions below, it returns the index at which it stopped.
func (s *Scanner) begin(p []byte, i int) int {
	switch c := p[i]; c {
	case '"':
		s.key = false
		return s.beginString(p, i+1)
	case '{':
		s.open(Object, wantFirstKey)
	case '[':
		s.open(Array, wantElement)
	case 'n':
		return s.beginWord(p, i, "null")
	case 't':
		return s.beginWord(p, i, "true")
	case 'f':
		return s.beginWord(p, i, "false")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		s.token.begin()
		return s.readNumber(p, i)
	default:
		if s.want == wantElement {
			s.close(c)
		} else {
			s.want = invalid
		}
	}
	return i + 1
}

// resume continues the token that an earlier piece began.
func (s *Scanner) resume(p []byte) int {
	switch s.want {
	case inString:
		return s.readString(p, 0)
	case inNumber:
		return s.readNumber(p, 0)
	case inWord:
		return s.readWord(p, 0)
	}
	return 0
}

func (s *Scanner) beginString(p []byte, i int) int {
	if end := special(p, i); end < len(p) && p[end] == '"' {
		return s.endString(p, end+1, p[i:end:end], end-i, false)
	}
	s.token.begin()
	return s.readString(p, i)
}

func (s *Scanner) readString(p []byte, i int) int {
	end, state := s.token.read(p, i)
	switch state {
	case tokenInvalid:
		s.want = invalid
		return end
	case tokenOpen:
		s.want = inString
		s.token.keep(p[i:])
		return end
	}
	return s.endString(p, end, s.token.text(p[i:end-1]), s.token.size, s.token.escaped)
}

func (s *Scanner) endString(p []byte, end int, text []byte, size int, escaped bool) int {
	s.strings = add(s.strings, size)
	if !s.key {
		s.scalar(String, text, size)
		return end
	}
	switch {
	case size > maxKey || escaped && len(text) == maxText: // of which the end may be missing
		s.path.skipKey()
	case escaped:
		var key [maxKey]byte
		s.path.key(unescape(key[:0], text))
	default:
		s.path.key(text)
	}
	s.want = wantColon
	if end < len(p) && p[end] == ':' {
		s.want = wantValue
		end++
	}
	return end
}

func (s *Scanner) readNumber(p []byte, i int) int {
	end := i
	for end < len(p) && ofNumber(p[end]) {
		end++
	}
	if end == len(p) {
		s.want = inNumber
		s.token.keep(p[i:])
		return end
	}
	s.scalar(Number, s.token.text(p[i:end]), 0)
	return end
}

func ofNumber(c byte) bool {
	return c-'0' <= 9 || c == '.' || c == '-' || c == '+' || c|0x20 == 'e'
}

func (s *Scanner) beginWord(p []byte, i int, word string) int {
	s.token.word(word)
	return s.readWord(p, i)
}

func (s *Scanner) readWord(p []byte, i int) int {
	word := s.token.kept()
	n := min(len(word)-s.token.size, len(p)-i)
	if !bytes.Equal(p[i:i+n], word[s.token.size:s.token.size+n]) {
		s.want = invalid
		return len(p)
	}
	s.token.size += n
	switch {
	case s.token.size < len(word):
		s.want = inWord
	case word[0] == 'n':
		s.scalar(Null, word, 0)
	default:
		s.scalar(Bool, word, 0)
	}
	return i + n
}

// scalar reports a value that is neither an object nor an array.
func (s *Scanner) scalar(kind Kind, text []byte, size int) {
	s.want = wantComma
	if s.depth == 0 {
		s.want = wantValue
	}
	s.emit(Value{Path: s.path.bytes(), Kind: kind, Text: text, Size: size})
}

// open reports the beginning of an object or array.
func (s *Scanner) open(kind Kind, want byte) {
	if s.depth == maxNesting {
		s.want = invalid
		return
	}
	s.emit(Value{Path: s.path.bytes(), Kind: kind})
	word, bit := &s.outer[s.depth/64], uint64(1)<<(s.depth%64)
	if *word &^= bit; s.object {
		*word |= bit
	}
	s.depth++
	s.want = want
	if s.object = kind == Object; s.object {
		s.path.open()
	}
}

// close ends the innermost object or array if c is its bracket.
func (s *Scanner) close(c byte) {
	switch {
	case s.object && c == '}':
		s.path.close()
	case s.object || c != ']':
		s.want = invalid
		return
	}
	s.depth--
	s.object = s.outer[s.depth/64]>>(s.depth%64)&1 != 0
	s.want = wantComma
	if s.depth == 0 {
		s.want = wantValue
	}
}

// add returns the sum of two sizes, or the largest int when the sum overflows.
func add(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
