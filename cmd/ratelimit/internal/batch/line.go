// Package batch sends the lines of a file to a provider, each once, inside a quota that others may
// share, and can be stopped at any moment and go on later.
package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// A line is a call of IN. It is one of
//
//	{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {…}}   OpenAI's
//	{"custom_id": "a", "params": {…}}                                                  Anthropic's
//	{…}                                                                                a body alone
//
// or a line of the file of errors: one of these with "error", which is ignored, or what was no JSON
// as a string, as {"input": "…", "error": {…}}.
type line struct {
	number    int
	id        string // custom_id, or line-N of a body alone
	path      string // at the upstream, with its query
	body      []byte
	raw       []byte // as it was read
	anthropic bool   // in Anthropic's form
	bare      bool   // a body alone
	hasID     bool   // the line has a custom_id
}

const (
	maxLine = 32 << 20 // bytes of a line
	maxID   = 1024     // bytes of a custom_id
	maxPath = 2048
)

// messagesPath is where Anthropic's lines go.
const messagesPath = "/v1/messages"

// parseLine reads a line. Without an error the line keeps raw. Bare is the path of lines that are
// bodies alone; empty refuses them.
func parseLine(raw []byte, number int, bare string) (line, error) {
	l := line{number: number, raw: raw}
	all, err := fieldsOf(raw)
	if err != nil {
		return l, err
	}
	if input, ok := wrapped(all); ok {
		l.raw = input
		if all, err = fieldsOf(input); err != nil {
			return l, err
		}
		raw = input
	}
	return l, l.fill(raw, all, bare)
}

// wrapped returns the line that an entry of the file of errors has as a string.
func wrapped(all fields) (input []byte, ok bool) {
	value, ok := all.get("input")
	if !ok || len(all) != 2 || len(value) == 0 || value[0] != '"' {
		return nil, false
	}
	if _, ok = all.get("error"); !ok {
		return nil, false
	}
	text, err := stringOf(value)
	return []byte(text), err == nil
}

// fill sets what the fields of a line say.
func (l *line) fill(raw []byte, all fields, bare string) error {
	if id, ok := all.get("custom_id"); ok {
		text, err := stringOf(id)
		if err != nil || text == "" || len(text) > maxID {
			return fmt.Errorf("custom_id is no string of 1 to %d bytes", maxID)
		}
		l.id, l.hasID = text, true
	}
	params, anthropic := all.get("params")
	body, enveloped := all.get("body")
	switch {
	case l.hasID && enveloped:
		if err := l.fillPath(all, bare); err != nil {
			return err
		}
		l.body = body
	case l.hasID && anthropic:
		l.path, l.body, l.anthropic = messagesPath, params, true
	case bare != "":
		l.path, l.bare = bare, true
		if l.body = bytes.TrimSpace(raw); l.hasID || all.has("error") {
			l.body = all.without("custom_id", "error")
		}
		if !l.hasID {
			l.id = fmt.Sprintf("line-%d", l.number)
		}
	case !l.hasID:
		return errors.New("custom_id is missing (a body alone needs --url)")
	default:
		return errors.New("there is neither body nor params (a body alone needs --url)")
	}
	return checkBody(l.body)
}

// fillPath sets the path of a line in OpenAI's form.
func (l *line) fillPath(all fields, bare string) error {
	if method, ok := all.get("method"); ok {
		if text, err := stringOf(method); err != nil || text != "POST" {
			return errors.New("method is not POST")
		}
	}
	l.path = bare
	if value, ok := all.get("url"); ok {
		text, err := stringOf(value)
		if err != nil {
			return errors.New("url is no string")
		}
		l.path = text
	}
	return CheckPath(l.path)
}

// CheckPath returns an error for the url of a line that is no path at the upstream, and for one
// that may lead out of it by the reading of any server.
func CheckPath(path string) error {
	u, err := url.Parse(path)
	switch {
	case path == "":
		return errors.New("url is missing")
	case len(path) > maxPath || err != nil:
		return errors.New("url is no path")
	case !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || u.Scheme != "" || u.Host != "" || u.User != nil:
		return errors.New("url is no path: it must begin with one slash, and have no host")
	case u.Fragment != "" || strings.ContainsAny(path, "\\# \t") || strings.Contains(u.Path, "\\"):
		return errors.New("url has a character that no path has")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return errors.New("url has . or .. in its path")
		}
	}
	return nil
}

// checkBody returns an error for a body, a part of valid JSON, that cannot be sent.
func checkBody(body []byte) error {
	if body[0] != '{' {
		return errors.New("the body is no JSON object")
	}
	if !bytes.Contains(body, []byte(`"stream"`)) && !bytes.Contains(body, []byte(`\u`)) {
		return nil // as are most
	}
	all, err := split(body)
	if err != nil {
		return err
	}
	if stream, ok := all.get("stream"); ok && string(stream) == "true" {
		return errors.New("the body asks for a stream, which is no line of OUT")
	}
	return nil
}

// field is a key of an object and its value, as it is written.
type field struct {
	name  string
	key   []byte // as it is written, with its quotes
	value []byte
}

// fields are those of an object, in their order.
type fields []field

// get returns the last value of a name, as most parsers do.
func (f fields) get(name string) (value []byte, ok bool) {
	for i := len(f) - 1; i >= 0; i-- {
		if f[i].name == name {
			return f[i].value, true
		}
	}
	return nil, false
}

func (f fields) has(name string) bool {
	_, ok := f.get(name)
	return ok
}

// without returns the object without some names.
func (f fields) without(names ...string) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, one := range f {
		if slices.Contains(names, one.name) {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(one.key)
		b.WriteByte(':')
		b.Write(one.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// fieldsOf splits a JSON object into its fields, which are parts of raw.
func fieldsOf(raw []byte) (fields, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) || !utf8.Valid(raw) {
		return nil, errors.New("the line is no JSON object")
	}
	return split(raw)
}

// split is fieldsOf for valid JSON.
func split(raw []byte) (fields, error) {
	all := make(fields, 0, 8)
	for rest := skipSpace(raw[1:]); rest[0] != '}'; {
		var one field
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
		end := valueEnd(rest)
		one.key = rest[:end]
		name, err := stringOf(one.key)
		if err != nil {
			return nil, err
		}
		one.name = name
		rest = skipSpace(skipSpace(rest[end:])[1:]) // behind the colon
		end = valueEnd(rest)
		one.value = rest[:end]
		all = append(all, one)
		rest = skipSpace(rest[end:])
	}
	return all, nil
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// valueEnd returns the length of the value at the beginning of valid JSON; of other text any length
// that it has.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 { // the end of what a number is in
				return i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return min(i+1, len(b))
		}
	}
	return len(b)
}

// stringOf returns the text of a JSON string.
func stringOf(value []byte) (string, error) {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), nil
	}
	var text string
	if len(value) == 0 || value[0] != '"' {
		return "", errors.New("no string")
	}
	err := json.Unmarshal(value, &text)
	return text, err
}
