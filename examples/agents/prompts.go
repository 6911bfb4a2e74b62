package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

//go:embed prompts.jsonl
var embedded string

// embeddedName stands for the embedded file where a path is wanted. It is not
// absolute, so that no file can have it.
const embeddedName = "embedded:prompts.jsonl"

const (
	maxLine   = 16 << 20 // of a batch file, in bytes
	batchURL  = "/v1/chat/completions"
	perPrompt = 3 // tokens that the chat format adds to a call
	perText   = 4 // and to each message
)

// prompt is one call to make.
type prompt struct {
	id        string
	model     string
	body      []byte // the request, with model
	estimate  int    // upper bound of the tokens of the messages
	maxTokens int    // of the answer
}

// batch is a file in the format of OpenAI's Batch API: one JSON object a line.
// It is read anew each time, a line at a time, and never held as a whole.
type batch struct {
	name  string // the absolute path, or embeddedName
	model string // takes the place of the one in the file; empty to keep that
	open  func() (io.ReadCloser, error)
}

// openBatch names the batch file at path; empty means the embedded one.
func openBatch(path, model string) (*batch, error) {
	if path == "" {
		return &batch{name: embeddedName, model: model, open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(embedded)), nil
		}}, nil
	}
	name, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open batch: %w", err)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("open batch: %w", err)
	}
	if !info.Mode().IsRegular() { // a pipe cannot be read twice
		return nil, fmt.Errorf("open batch: %s is not a regular file", name)
	}
	return &batch{name: name, model: model, open: func() (io.ReadCloser, error) { return os.Open(name) }}, nil
}

// survey reads the whole batch once, so that a mistake in its last line is found
// before the first call is made. It returns the model and the ids of the prompts.
func (b *batch) survey() (model string, ids map[string]bool, err error) {
	ids = make(map[string]bool)
	for p, err := range b.prompts() {
		if err != nil {
			return "", nil, err
		}
		if ids[p.id] {
			return "", nil, fmt.Errorf("read %s: custom_id %q is there twice", b.name, p.id)
		}
		ids[p.id] = true
		model = p.model
	}
	if len(ids) == 0 {
		return "", nil, fmt.Errorf("read %s: no prompts", b.name)
	}
	return model, ids, nil
}

// prompts reads the batch. It ends with the first error.
func (b *batch) prompts() iter.Seq2[prompt, error] {
	return func(yield func(prompt, error) bool) {
		r, err := b.open()
		if err != nil {
			yield(prompt{}, fmt.Errorf("open batch: %w", err))
			return
		}
		defer r.Close()
		for p, err := range parsePrompts(r, b.model) {
			if err != nil {
				err = fmt.Errorf("read %s: %w", b.name, err)
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// parsePrompts reads a batch file. All prompts are for one model, because one
// quota is shared: for model, or for that of the first line when it is empty. It
// passes over empty lines and ends with the first error, which names its line.
func parsePrompts(r io.Reader, model string) iter.Seq2[prompt, error] {
	return func(yield func(prompt, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLine)
		expect := ""
		number := 0
		for lines.Scan() {
			number++
			if len(strings.TrimSpace(lines.Text())) == 0 {
				continue
			}
			p, err := parsePrompt(lines.Bytes(), model)
			if err == nil && expect != "" && p.model != expect {
				err = fmt.Errorf("model is %q after %q: say -model to use one for all", p.model, expect)
			}
			if err != nil {
				yield(prompt{}, fmt.Errorf("line %d: %w", number, err))
				return
			}
			expect = p.model
			if !yield(p, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(prompt{}, fmt.Errorf("line %d: %w", number+1, err))
		}
	}
}

// parsePrompt reads one line.
func parsePrompt(line []byte, model string) (prompt, error) {
	var item struct {
		CustomID string          `json:"custom_id"`
		Method   string          `json:"method"`
		URL      string          `json:"url"`
		Body     json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(line, &item); err != nil {
		return prompt{}, err
	}
	switch {
	case item.CustomID == "" || strings.ContainsFunc(item.CustomID, unicode.IsControl):
		return prompt{}, fmt.Errorf("custom_id is %q, want a name", item.CustomID)
	case item.Method != "POST":
		return prompt{}, fmt.Errorf("method is %q, want \"POST\"", item.Method)
	case item.URL != batchURL:
		return prompt{}, fmt.Errorf("url is %q, want %q", item.URL, batchURL)
	}
	p := prompt{id: item.CustomID, body: item.Body}
	if model != "" {
		var err error
		if p.body, err = withModel(item.Body, model); err != nil {
			return prompt{}, fmt.Errorf("body: %w", err)
		}
	}
	if err := p.measure(); err != nil {
		return prompt{}, fmt.Errorf("body: %w", err)
	}
	return p, nil
}

// withModel returns body with another model and everything else as it was.
func withModel(body []byte, model string) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("want an object")
	}
	name, err := json.Marshal(model)
	if err != nil {
		return nil, err
	}
	fields["model"] = name
	return json.Marshal(fields)
}

// measure reads the fields of the body that the limiter needs.
func (p *prompt) measure() error {
	var body struct {
		Model    string `json:"model"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"`
	}
	if err := json.Unmarshal(p.body, &body); err != nil {
		return err
	}
	p.model = body.Model
	p.maxTokens = max(body.MaxTokens, body.MaxCompletionTokens)
	switch {
	case p.model == "":
		return errors.New("model is missing")
	case len(body.Messages) == 0:
		return errors.New("messages are missing")
	case p.maxTokens <= 0:
		// Without it the cost of the call is unknown.
		return errors.New("max_tokens is missing")
	}
	p.estimate = perPrompt
	for _, m := range body.Messages {
		p.estimate += perText + (characters(m.Content)+3)/4
	}
	return nil
}

// characters counts the characters of a message's content. Content in parts
// counts with its JSON around it, which is more than its text.
func characters(content json.RawMessage) int {
	var text string
	if err := json.Unmarshal(content, &text); err != nil {
		return len(content)
	}
	return utf8.RuneCountInString(text)
}
