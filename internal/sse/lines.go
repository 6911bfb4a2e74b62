package sse

import "bytes"

// lines cuts a piece of a stream into lines, which end with \n, \r\n or \r.
type lines struct {
	p []byte
	i int // the beginning of the next line

	// The next \n and \r at or after i. They are kept so that a piece with one kind of line end is
	// searched only once for the other.
	lf, cr int
}

func linesOf(p []byte) lines { return lines{p: p, lf: -1, cr: -1} }

// next returns the next line without its end, and whether the piece contains the end. After a \r
// at the end of the piece, a \n at the start of the next piece still belongs to the line.
func (l *lines) next() (line []byte, ended bool) {
	if l.lf < l.i {
		l.lf = l.find('\n')
	}
	if l.cr < l.i {
		l.cr = l.find('\r')
	}
	end := min(l.lf, l.cr)
	line = l.p[l.i:end]
	l.i = end
	if end == len(l.p) {
		return line, false
	}
	l.i++
	if end == l.cr && l.lf == l.i && l.i < len(l.p) {
		l.i++
	}
	return line, true
}

// skipBlank skips the next line if it is blank and ends with \n.
func (l *lines) skipBlank() bool {
	if l.i < len(l.p) && l.p[l.i] == '\n' {
		l.i++
		return true
	}
	return false
}

func (l *lines) find(c byte) int {
	if n := bytes.IndexByte(l.p[l.i:], c); n >= 0 {
		return l.i + n
	}
	return len(l.p)
}

// afterCR drops the \n at the start of p that completes a \r at the end of the piece before, and
// records in cr whether p ends with \r.
func afterCR(cr *bool, p []byte) []byte {
	if *cr && len(p) > 0 && p[0] == '\n' {
		p = p[1:]
		*cr = false
	}
	if len(p) > 0 {
		*cr = p[len(p)-1] == '\r'
	}
	return p
}

// dataOf returns the value of a line that is a data field.
func dataOf(line []byte) (value []byte, ok bool) {
	if len(line) > 6 && string(line[:6]) == "data: " {
		return line[6:], true
	}
	var f field
	value = f.value(line)
	return value, f.isData()
}

// field is the state of recognizing a data field in a line that arrives in parts: the number of
// bytes of "data: " that matched so far, or one of the constants.
type field byte

const (
	lineStart  field = 0
	afterName  field = 4
	afterColon field = 5
	inValue    field = 6
	otherField field = 7
)

// value reads the next part of the line and returns the bytes of it that belong to the value.
func (f *field) value(part []byte) []byte {
	for i, c := range part {
		switch {
		case *f == inValue:
			return part[i:]
		case *f == otherField:
			return nil
		case *f == afterColon:
			*f = inValue
			if c != ' ' {
				return part[i:]
			}
		case c == "data:"[*f]:
			*f++
		default:
			*f = otherField
		}
	}
	return nil
}

// isData reports whether the line, which ends here, is a data field. The name without a colon is
// one, too.
func (f *field) isData() bool { return *f >= afterName && *f <= inValue }
