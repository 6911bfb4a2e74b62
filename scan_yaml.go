package ratelimit

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// scanYAML reads the layout that Persist and yaml.Marshal write: block style,
// one key or item a line, any indentation that is kept up. It exists because
// the YAML library takes seconds and gigabytes for what a million entries need.
// It is strict: at anything else it gives up, and parseYAML decides whether the
// file is merely of another layout or wrong. Whatever both accept, they read
// alike.
func scanYAML(r io.Reader) (*snapshot, error) {
	p := &lineScanner{in: bufio.NewScanner(r)}
	p.in.Buffer(make([]byte, 1<<16), 1<<22)
	s := &snapshot{quotas: make(map[string]ModelQuota), state: make(map[string]*UsageStats)}
	if err := p.document(s); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.number, err)
	}
	return s, nil
}

var (
	errLayout = errors.New("not the layout that Persist writes")
	errEmpty  = errors.New("nothing in it")
)

// lineScanner hands out the lines that hold something, split into indentation
// and text.
type lineScanner struct {
	in     *bufio.Scanner
	number int
	indent int
	text   []byte
	done   bool
}

func (p *lineScanner) next() error {
	for p.in.Scan() {
		p.number++
		line := p.in.Bytes()
		p.indent = 0
		for p.indent < len(line) && line[p.indent] == ' ' {
			p.indent++
		}
		p.text = line[p.indent:]
		if len(p.text) > 0 && p.text[0] != '#' {
			return nil
		}
	}
	p.done, p.indent, p.text = true, -1, nil
	return p.in.Err()
}

// value returns what follows "key: " in the line.
func (p *lineScanner) value(key string) ([]byte, bool) {
	t := p.text
	if len(t) > len(key)+2 && string(t[:len(key)]) == key && t[len(key)] == ':' && t[len(key)+1] == ' ' {
		return t[len(key)+2:], true
	}
	return nil, false
}

func (p *lineScanner) document(s *snapshot) error {
	if err := p.next(); err != nil {
		return err
	}
	if p.done {
		return errEmpty
	}
	var quotas, state bool
	for !p.done {
		if p.indent != 0 {
			return errLayout
		}
		var err error
		switch text := string(p.text); {
		case !quotas && (text == "quotas:" || text == "quotas: {}"):
			quotas = true
			err = p.models(text, func(model string, indent int) error { return p.quota(s, model, indent) })
		case !state && (text == "state:" || text == "state: {}"):
			state = true
			err = p.models(text, func(model string, indent int) error { return p.stats(s, model, indent) })
		default:
			err = errLayout
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// models reads a section: the names one step in, what belongs to each another
// step in.
func (p *lineScanner) models(header string, read func(model string, indent int) error) error {
	if err := p.next(); err != nil {
		return err
	}
	indent := p.indent
	if strings.HasSuffix(header, "{}") {
		if indent > 0 {
			return errLayout
		}
		return nil
	}
	for p.indent > 0 {
		if p.indent != indent {
			return errLayout
		}
		model, err := p.name()
		if err != nil {
			return err
		}
		if err := p.next(); err != nil {
			return err
		}
		if p.indent <= indent {
			return errLayout
		}
		if err := read(model, p.indent); err != nil {
			return err
		}
	}
	return nil
}

// name reads a line that holds nothing but a model's name and a colon.
func (p *lineScanner) name() (string, error) {
	text, ok := strings.CutSuffix(string(p.text), ":")
	switch {
	case !ok:
		return "", errLayout
	case plainName(text) && !strings.EqualFold(text, "null"):
		return text, nil
	}
	quoted, binary := strings.CutPrefix(text, binaryTag)
	if len(quoted) < 2 || quoted[0] != '"' {
		return "", errLayout
	}
	name, err := strconv.Unquote(quoted)
	if err != nil || strconv.Quote(name) != quoted {
		return "", errLayout
	}
	if binary {
		raw, err := base64.StdEncoding.DecodeString(name)
		if err != nil {
			return "", errLayout
		}
		name = string(raw)
	}
	return name, nil
}

func (p *lineScanner) quota(s *snapshot, model string, indent int) error {
	if _, exists := s.quotas[model]; exists {
		return fmt.Errorf("quotas.%s: a duplicate key", clip(model))
	}
	var q ModelQuota
	var seen fieldSet
	for p.indent == indent {
		var err error
		if v, ok := p.value("max_rpm"); ok && seen.add(0) {
			q.MaxRPM, err = digits(v)
		} else if v, ok := p.value("max_tpm"); ok && seen.add(1) {
			q.MaxTPM, err = digits(v)
		} else if v, ok := p.value("max_rpd"); ok && seen.add(2) {
			q.MaxRPD, err = digits(v)
		} else {
			err = errLayout
		}
		if err != nil {
			return err
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	s.quotas[model] = q
	return nil
}

// fieldSet remembers which fields of a map were there.
type fieldSet uint

// add reports whether the field is new.
func (f *fieldSet) add(field int) bool {
	isNew := *f&(1<<field) == 0
	*f |= 1 << field
	return isNew
}

func (p *lineScanner) stats(s *snapshot, model string, indent int) error {
	if _, exists := s.state[model]; exists {
		return fmt.Errorf("state.%s: a duplicate key", clip(model))
	}
	stats := &UsageStats{}
	s.state[model] = stats
	var seen fieldSet
	for p.indent == indent {
		text := string(p.text)
		var err error
		if text == "requests:" && seen.add(0) {
			err = p.requests(stats, indent)
		} else if text == "requests: []" && seen.add(0) {
			err = p.next()
		} else if text == "tokens:" && seen.add(1) {
			err = p.tokens(stats, indent)
		} else if text == "tokens: []" && seen.add(1) {
			err = p.next()
		} else if v, ok := p.value("day_start"); ok && seen.add(2) {
			if stats.DayStart, err = timestamp(v); err == nil {
				err = p.next()
			}
		} else if v, ok := p.value("day_count"); ok && seen.add(3) {
			if stats.DayCount, err = digits(v); err == nil {
				err = p.next()
			}
		} else {
			err = errLayout
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// item reports whether the line is an item of the list whose key stands at
// indent, and returns what follows the dash. The first item sets where the
// others have to stand.
func (p *lineScanner) item(indent int, stands *int) ([]byte, bool) {
	if p.indent < indent || len(p.text) < 3 || p.text[0] != '-' || p.text[1] != ' ' || p.text[2] == ' ' {
		return nil, false
	}
	if *stands < 0 {
		*stands = p.indent
	}
	return p.text[2:], p.indent == *stands
}

func (p *lineScanner) requests(stats *UsageStats, indent int) error {
	if err := p.next(); err != nil {
		return err
	}
	stands := -1
	for {
		text, ok := p.item(indent, &stands)
		if !ok {
			return p.endOfList(indent, stands)
		}
		t, err := timestamp(text)
		if err != nil {
			return err
		}
		stats.Requests = append(stats.Requests, t)
		if err := p.next(); err != nil {
			return err
		}
	}
}

// endOfList checks that the line after a list goes on with the model, or with
// what stands further out.
func (p *lineScanner) endOfList(indent, stands int) error {
	if stands < 0 || p.indent > indent || len(p.text) > 0 && p.text[0] == '-' {
		return errLayout
	}
	return nil
}

func (p *lineScanner) tokens(stats *UsageStats, indent int) error {
	if err := p.next(); err != nil {
		return err
	}
	stands := -1
	for {
		text, ok := p.item(indent, &stands)
		if !ok {
			return p.endOfList(indent, stands)
		}
		p.text = text
		v, ok := p.value("time")
		if !ok {
			return errLayout
		}
		t, err := timestamp(v)
		if err != nil {
			return err
		}
		if err := p.next(); err != nil {
			return err
		}
		v, ok = p.value("count")
		if !ok || p.indent != stands+2 {
			return errLayout
		}
		count, err := digits(v)
		if err != nil {
			return err
		}
		stats.Tokens = append(stats.Tokens, TokenEntry{Time: t, Count: count})
		if err := p.next(); err != nil {
			return err
		}
	}
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

func timestamp(text []byte) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return time.Time{}, errLayout
	}
	return t, nil
}
