package yamlfile

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// scan reads the layout that EncodeState and yaml.Marshal write: block style, one key or item a
// line, any consistent indentation. It exists because the YAML library takes seconds and gigabytes
// for a million entries. It is strict: at anything else it gives up, and parse decides whether the
// file is wrong or merely of another layout. parse reads every file that scan accepts in the same
// way, unless it finds it too large or too dense.
func scan(r io.Reader) (*state.Snapshot, error) {
	p := newLineScanner(r)
	s := state.NewSnapshot()
	if err := p.document(s); err != nil {
		return nil, fmt.Errorf("line %d: %w", p.number, err)
	}
	return s, nil
}

func (p *lineScanner) document(s *state.Snapshot) error {
	if err := p.next(); err != nil {
		return err
	}
	if p.done {
		return errEmpty
	}
	readers := map[string]func(s *state.Snapshot, model string, indent int) error{
		"quotas": p.quota, "state": p.stats, "cooldowns": p.cooldown, "origins": p.origins, "answers": p.answers, "found": p.found, "spend": p.spend,
		poolsKey: p.pool, poolPrefix + "state": p.stats, poolPrefix + "cooldowns": p.cooldown,
		poolPrefix + "origins": p.origins, poolPrefix + "found": p.found, poolPrefix + "spend": p.spend,
	}
	for !p.done {
		text := string(p.text)
		key, _, _ := strings.Cut(text, ":")
		read := readers[key]
		if p.indent != 0 || read == nil || text != key+":" && text != key+": {}" {
			return errLayout
		}
		delete(readers, key)
		counted := countedBy(key)
		err := p.models(text, func(name string, indent int) error { return read(s, counted(name), indent) })
		if err != nil {
			return err
		}
	}
	return nil
}

// countedBy returns the function that returns the name under which something is counted, by its
// name in a section.
func countedBy(section string) func(name string) string {
	if section == poolsKey || strings.HasPrefix(section, poolPrefix) {
		return state.PoolName
	}
	return state.ModelName
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

// name reads the lines that hold nothing but a model's name: "name:", or "? name"
// and ":" for a long one.
func (p *lineScanner) name() (string, error) {
	text, long := strings.CutPrefix(string(p.text), longKey)
	if long {
		indent := p.indent
		if err := p.next(); err != nil {
			return "", err
		}
		if p.indent != indent || string(p.text) != ":" {
			return "", errLayout
		}
	} else {
		var ok bool
		if text, ok = strings.CutSuffix(text, ":"); !ok || len(text) > maxShortKey {
			return "", errLayout
		}
	}
	if plainName(text) && !strings.EqualFold(text, "null") {
		return text, nil
	}
	quoted, binary := strings.CutPrefix(text, binaryTag)
	name, err := unquote(quoted)
	if err != nil {
		return "", err
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

func (p *lineScanner) quota(s *state.Snapshot, model string, indent int) error {
	if _, exists := s.Quotas[model]; exists {
		return inField("quotas", inField(model, errDuplicate))
	}
	q, err := p.quotaFields(indent)
	s.Quotas[model] = q
	return err
}

// origins reads who said the quota of a model.
func (p *lineScanner) origins(s *state.Snapshot, model string, indent int) error {
	if _, exists := s.Said[model]; exists {
		return inField("origins", inField(model, errDuplicate))
	}
	var said state.Said
	err := p.fields(indent, func(key string) error {
		o, known := state.OriginOf(key)
		if !known || len(p.text) != len(key)+1 {
			return errLayout
		}
		if err := p.next(); err != nil {
			return err
		}
		if p.indent <= indent {
			return errLayout
		}
		q, err := p.quotaFields(p.indent)
		said.Set(o, q)
		return err
	})
	s.Said[model] = said
	return err
}

func (p *lineScanner) quotaFields(indent int) (q state.Quota, err error) {
	return p.quotaFieldsBeside(indent, func(string) (bool, error) { return false, nil })
}

// quotaFieldsBeside reads a quota among other fields, which others reads.
func (p *lineScanner) quotaFieldsBeside(indent int, others func(key string) (theirs bool, err error)) (q state.Quota, err error) {
	err = p.fields(indent, func(key string) error {
		if theirs, err := others(key); theirs {
			return err
		}
		of, isLimit := state.DimensionOf(key)
		switch {
		case isLimit:
			return p.count(key, q.Limit(of))
		case key == state.ZoneKey:
			return p.zone(key, &q.DayZone)
		case key == state.BurstKey:
			return p.burst(key, &q.Burst)
		}
		if f, isBound := state.AdaptiveOf(key); isBound {
			return p.count(key, f.Of(&q))
		}
		if b, isBudget := state.BudgetOf(key); isBudget {
			var limit int64
			err := p.unit(key, &b.Unit, &limit)
			b.Set(&q, limit)
			return err
		}
		return errLayout
	})
	if err == nil {
		err = invalidQuota(q.CheckAdaptive())
	}
	return q, err
}

func (p *lineScanner) stats(s *state.Snapshot, model string, indent int) error {
	if _, exists := s.Usage[model]; exists {
		return inField("state", inField(model, errDuplicate))
	}
	var entries []state.Token
	stats := &state.Usage{}
	s.Usage[model] = stats
	err := p.fields(indent, func(key string) error {
		switch key {
		case "requests":
			return p.list(key, indent, func() error {
				t, err := timestamp(p.text)
				if err != nil {
					return err
				}
				stats.Requests = append(stats.Requests, t)
				return p.next()
			})
		case "tokens":
			return p.list(key, indent, func() error {
				e, err := p.tokenEntry()
				entries = append(entries, e)
				return err
			})
		case "day_start":
			return p.time(key, &stats.DayStart)
		case "day_count":
			return p.count(key, &stats.DayCount)
		case "day_tokens":
			return p.count(key, &stats.DayTokens)
		}
		return errLayout
	})
	stats.Tokens = entries
	return err
}

func (p *lineScanner) tokenEntry() (e state.Token, err error) {
	indent := p.indent
	if err := p.time("time", &e.Time); err != nil {
		return e, err
	}
	if p.indent != indent {
		return e, errLayout
	}
	if err := p.count("count", &e.Count); err != nil || p.indent != indent {
		return e, err
	}
	line := p.number
	if err := p.count("input", &e.Input); err != nil {
		return e, err
	}
	if err := checkInput(e); err != nil {
		p.number = line
		return e, err
	}
	return e, nil
}

func (p *lineScanner) cooldown(s *state.Snapshot, model string, indent int) error {
	if _, exists := s.Cooldowns[model]; exists {
		return inField("cooldowns", inField(model, errDuplicate))
	}
	var c state.Cooldown
	err := p.fields(indent, func(key string) error {
		switch key {
		case "until":
			return p.time(key, &c.Until)
		case "cause":
			return p.cause(key, &c.Cause)
		}
		return errLayout
	})
	s.Cooldowns[model] = c
	return err
}

func (p *lineScanner) answers(s *state.Snapshot, model string, indent int) error {
	if _, exists := s.Answers[model]; exists {
		return inField("answers", inField(model, errDuplicate))
	}
	var a state.Answers
	err := p.fields(indent, func(key string) error {
		for _, f := range state.AnswersFields {
			if f.Key == key {
				return p.count(key, f.Of(&a))
			}
		}
		if key == state.ErrorsKey {
			return p.row(key, &a.Errors)
		}
		return errLayout
	})
	if err == nil {
		err = a.Check()
	}
	s.Answers[model] = a
	return err
}
