package llmhttp

import (
	"bytes"
	"sync"
)

const (
	maxNesting = 10_000 // open objects and arrays, as encoding/json has it
	maxKeys    = 16     // keys in a path
	maxKey     = 64     // bytes of a key in a path
	maxText    = 256    // bytes of Value.Text
)

// What a scanner expects next. From inString on it is inside a token that an
// earlier piece began.
const (
	wantValue    byte = iota
	wantElement       // after [
	wantKey           // after a comma in an object
	wantFirstKey      // after {
	wantColon
	wantComma // or the end of what is open
	inString
	inNumber
	inWord // null, true, false
	isBad
)

// scanner reads JSON texts, one after the other with or without white space between
// them, in pieces of any size, and tells each value as soon as it has it. How the text
// is cut into pieces changes nothing of what is told. It allocates nothing.
//
// It does not judge the grammar of numbers, characters and escapes in strings. Anything
// else that is no JSON, and what is nested deeper than 10,000 levels, is bad: nothing
// is told from there on until reset. A scanner has one user at a time.
type scanner struct {
	tell func(Value) // must not use the scanner

	// strings is how many bytes of UTF-8 the strings and keys told so far have together,
	// escapes taken for what they stand for.
	strings int

	want   byte
	key    bool // the string at hand is a key
	object bool // the innermost of what is open is an object
	depth  int
	outer  [(maxNesting + 63) / 64]uint64 // object, of the levels outside the innermost

	path  keyPath
	token token
}

// scanners are those that nobody uses: most of one is room, which is not made anew for each call.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

func newScanner(tell func(Value)) *scanner {
	s := scanners.Get().(*scanner)
	s.tell = tell
	s.reset()
	return s
}

// release gives the scanner back. It must not be used any more.
func (s *scanner) release() {
	s.tell = nil
	scanners.Put(s)
}

// reset makes the scanner ready for another text.
func (s *scanner) reset() {
	// The arrays may be large and need no clearing.
	s.strings, s.want, s.object, s.depth = 0, wantValue, false, 0
	s.path.reset()
	s.token.begin()
}

// bad reports that what was read is no JSON.
func (s *scanner) bad() bool { return s.want == isBad }

// end tells the scanner that no more comes. A number at the very end is told now;
// a text that is not complete is bad.
func (s *scanner) end() {
	if s.want == inNumber && s.depth == 0 {
		s.value(Number, s.token.kept(), 0)
	}
	if s.want != wantValue || s.depth > 0 {
		s.want = isBad
	}
}

// partial returns how many bytes the string has so far that is not at its end.
func (s *scanner) partial() int {
	if s.want != inString {
		return 0
	}
	return s.token.size
}

// feed reads the next piece. It neither keeps nor changes it.
func (s *scanner) feed(p []byte) {
	i := s.resume(p)
	for i < len(p) {
		c := p[i]
		if c <= ' ' {
			if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				s.want = isBad
				return
			}
			i++
			continue
		}
		switch s.want {
		case wantColon:
			if c != ':' {
				s.want = isBad
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
				s.want = isBad
			}
		case wantValue, wantElement:
			i = s.begin(p, i)
		default:
			return
		}
	}
}

// begin reads a value, as much of it as there is, or the end of an array without any.
// It returns where it stopped, as those below do.
func (s *scanner) begin(p []byte, i int) int {
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
			s.want = isBad
		}
	}
	return i + 1
}

// resume reads the rest of the token that an earlier piece began.
func (s *scanner) resume(p []byte) int {
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

func (s *scanner) beginString(p []byte, i int) int {
	if end := special(p, i); end < len(p) && p[end] == '"' {
		return s.endString(p, end+1, p[i:end:end], end-i, false)
	}
	s.token.begin()
	return s.readString(p, i)
}

func (s *scanner) readString(p []byte, i int) int {
	end, state := s.token.read(p, i)
	switch state {
	case tokenBad:
		s.want = isBad
		return end
	case tokenOpen:
		s.want = inString
		s.token.keep(p[i:])
		return end
	}
	return s.endString(p, end, s.token.text(p[i:end-1]), s.token.size, s.token.escaped)
}

func (s *scanner) endString(p []byte, end int, text []byte, size int, escaped bool) int {
	s.strings = sum(s.strings, size)
	if !s.key {
		s.value(String, text, size)
		return end
	}
	s.path.key(text, !escaped && size <= maxKey)
	s.want = wantColon
	if end < len(p) && p[end] == ':' {
		s.want = wantValue
		end++
	}
	return end
}

func (s *scanner) readNumber(p []byte, i int) int {
	end := i
	for end < len(p) && ofNumber(p[end]) {
		end++
	}
	if end == len(p) {
		s.want = inNumber
		s.token.keep(p[i:])
		return end
	}
	s.value(Number, s.token.text(p[i:end]), 0)
	return end
}

func ofNumber(c byte) bool {
	return c-'0' <= 9 || c == '.' || c == '-' || c == '+' || c|0x20 == 'e'
}

func (s *scanner) beginWord(p []byte, i int, word string) int {
	s.token.word(word)
	return s.readWord(p, i)
}

func (s *scanner) readWord(p []byte, i int) int {
	word := s.token.kept()
	n := min(len(word)-s.token.size, len(p)-i)
	if !bytes.Equal(p[i:i+n], word[s.token.size:s.token.size+n]) {
		s.want = isBad
		return len(p)
	}
	s.token.size += n
	switch {
	case s.token.size < len(word):
		s.want = inWord
	case word[0] == 'n':
		s.value(Null, word, 0)
	default:
		s.value(Bool, word, 0)
	}
	return i + n
}

// value tells a value that is no object and no array.
func (s *scanner) value(kind Kind, text []byte, size int) {
	s.want = wantComma
	if s.depth == 0 {
		s.want = wantValue
	}
	s.tell(Value{Path: s.path.bytes(), Kind: kind, Text: text, Size: size})
}

// open tells that an object or array begins.
func (s *scanner) open(kind Kind, want byte) {
	if s.depth == maxNesting {
		s.want = isBad
		return
	}
	s.tell(Value{Path: s.path.bytes(), Kind: kind})
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

// close ends the innermost object or array, if c is its bracket.
func (s *scanner) close(c byte) {
	switch {
	case s.object && c == '}':
		s.path.close()
	case s.object || c != ']':
		s.want = isBad
		return
	}
	s.depth--
	s.object = s.outer[s.depth/64]>>(s.depth%64)&1 != 0
	s.want = wantComma
	if s.depth == 0 {
		s.want = wantValue
	}
}
