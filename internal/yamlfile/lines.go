package yamlfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

var (
	errLayout = errors.New("not the layout that Persist writes")
	errEmpty  = errors.New("nothing in it")
)

// maxLine is the longest line, in bytes, that scan reads. Only a model's
// name can make a line longer than a hundred.
const maxLine = 1 << 26

// lineScanner hands out the lines that hold something, split into indentation
// and text.
type lineScanner struct {
	in     *bufio.Scanner
	number int
	indent int
	text   []byte
	done   bool
}

func newLineScanner(r io.Reader) *lineScanner {
	p := &lineScanner{in: bufio.NewScanner(r)}
	p.in.Buffer(make([]byte, 1<<16), maxLine)
	return p
}

// next goes on to the next line that holds something.
func (p *lineScanner) next() error {
	for p.in.Scan() {
		p.number++
		line := p.in.Bytes()
		p.indent = 0
		for p.indent < len(line) && line[p.indent] == ' ' {
			p.indent++
		}
		p.text = line[p.indent:]
		if len(p.text) > 0 && (p.text[0] != '#' || !plainComment(p.text)) {
			return nil
		}
	}
	p.done, p.indent, p.text = true, -1, nil
	return p.in.Err()
}

// plainComment reports whether a comment is of ASCII alone, and so free of what
// YAML takes for the end of a line, or for no text at all.
func plainComment(text []byte) bool {
	for _, c := range text {
		if c < ' ' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}

// fields reads the fields that stand at indent, each once. read finds the line
// of a field, and goes on to the one after it.
func (p *lineScanner) fields(indent int, read func(key string) error) error {
	var seen []string
	for p.indent == indent {
		key, _, _ := strings.Cut(string(p.text), ":")
		if slices.Contains(seen, key) {
			return errLayout
		}
		seen = append(seen, key)
		if err := read(key); err != nil {
			return err
		}
	}
	return nil
}

// list reads the list whose key stands at indent. The first item sets where the
// others have to stand. read finds the line without its dash, and goes on to the
// one after the item.
func (p *lineScanner) list(key string, indent int, read func() error) error {
	rest, ok := bytes.CutPrefix(p.text, []byte(key+":"))
	if !ok || len(rest) > 0 && string(rest) != " []" {
		return errLayout
	}
	if err := p.next(); err != nil || len(rest) > 0 {
		return err
	}
	stands := p.indent
	for p.indent == stands && stands >= indent && len(p.text) > 2 && p.text[0] == '-' && p.text[1] == ' ' {
		p.indent, p.text = p.indent+2, p.text[2:]
		if err := read(); err != nil {
			return err
		}
	}
	if p.indent > indent || len(p.text) > 0 && p.text[0] == '-' {
		return errLayout
	}
	return nil
}

func (p *lineScanner) count(key string, into *int) error {
	text, err := p.value(key)
	if err != nil {
		return err
	}
	if *into, err = digits(text); err != nil {
		return err
	}
	return p.next()
}

func (p *lineScanner) time(key string, into *time.Time) error {
	text, err := p.value(key)
	if err != nil {
		return err
	}
	if *into, err = timestamp(text); err != nil {
		return err
	}
	return p.next()
}

// zone reads a time zone.
func (p *lineScanner) zone(key string, into *string) error {
	text, err := p.value(key)
	if err != nil {
		return err
	}
	name, err := textOf(text)
	if err != nil {
		return err
	}
	if _, err := clock.LoadZone(name); err != nil {
		return invalidQuota(inField(key, err))
	}
	*into = name
	return p.next()
}

// cause reads the cause of a cooldown.
func (p *lineScanner) cause(key string, into *string) error {
	text, err := p.value(key)
	if err != nil {
		return err
	}
	if *into, err = textOf(text); err != nil {
		return err
	}
	return p.next()
}

// textOf reads a text as quotedName writes it, unless it is no UTF-8.
func textOf(text []byte) (string, error) {
	if s := string(text); plainText(s) {
		return s, nil
	}
	return unquote(string(text))
}

// burst reads a duration as EncodeState writes it.
func (p *lineScanner) burst(key string, into *time.Duration) error {
	text, err := p.value(key)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 || d.String() != string(text) {
		return errLayout
	}
	*into = d
	return p.next()
}

// row reads numbers as EncodeState writes them.
func (p *lineScanner) row(key string, into *state.Row) error {
	text, err := p.value(key)
	if err != nil {
		return err
	}
	row, err := state.ParseRow(string(text))
	if err != nil || row.String() != string(text) {
		return errLayout
	}
	*into = row
	return p.next()
}

// unquote reads a text in quotes as quotedName makes them.
func unquote(quoted string) (string, error) {
	text, err := strconv.Unquote(quoted)
	if err != nil || strconv.QuoteToASCII(text) != quoted {
		return "", errLayout
	}
	return text, nil
}

// value returns what follows "key: " in the line.
func (p *lineScanner) value(key string) ([]byte, error) {
	t, n := p.text, len(key)
	if len(t) > n+2 && string(t[:n]) == key && t[n] == ':' && t[n+1] == ' ' {
		return t[n+2:], nil
	}
	return nil, errLayout
}

// digits reads a decimal number without sign or leading zeros.
func digits(text []byte) (int, error) {
	if len(text) > 1 && text[0] == '0' {
		return 0, errLayout
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, errLayout
		}
	}
	v, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, errLayout
	}
	return v, nil
}

// timestamp reads a time of RFC 3339, and that strictly: time.Parse accepts
// more, and takes longer.
func timestamp(text []byte) (t time.Time, err error) {
	if t.UnmarshalText(text) != nil {
		return t, errLayout
	}
	return t, nil
}
