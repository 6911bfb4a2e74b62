package yamlfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// snapshotBuilder makes a snapshot of the nodes of a document.
type snapshotBuilder struct{ *state.Snapshot }

func (b snapshotBuilder) quota(model string, n *yaml.Node) error {
	q, err := quotaOf(n)
	b.Quotas[model] = q
	return err
}

// origins reads who said the quota of a model.
func (b snapshotBuilder) origins(model string, n *yaml.Node) error {
	var said state.Said
	err := eachField(n, func(key string, value *yaml.Node) error {
		o, known := state.OriginOf(key)
		if !known {
			return nil
		}
		q, err := quotaOf(value)
		said.Set(o, q)
		return err
	})
	b.Said[model] = said
	return err
}

func quotaOf(n *yaml.Node) (q state.Quota, err error) {
	return quotaBeside(n, func(string, *yaml.Node) (bool, error) { return false, nil })
}

// quotaBeside reads a quota among other fields, which others reads.
func quotaBeside(n *yaml.Node, others func(key string, value *yaml.Node) (theirs bool, err error)) (q state.Quota, err error) {
	err = eachField(n, func(key string, value *yaml.Node) (err error) {
		if theirs, err := others(key, value); theirs {
			return err
		}
		of, isLimit := state.DimensionOf(key)
		switch {
		case isLimit:
			*q.Limit(of), err = countOf(value)
		case key == state.ZoneKey:
			q.DayZone, err = zoneOf(value)
		case key == state.BurstKey:
			q.Burst, err = burstOf(value)
		}
		if f, isBound := state.AdaptiveOf(key); isBound {
			*f.Of(&q), err = countOf(value)
		}
		if b, isBudget := state.BudgetOf(key); isBudget {
			var limit int64
			limit, err = valueOf(value, &b.Unit)
			b.Set(&q, limit)
		}
		return err
	})
	if err == nil {
		err = q.CheckAdaptive()
	}
	return q, invalidQuota(err)
}

func (b snapshotBuilder) usage(model string, n *yaml.Node) error {
	var entries []state.Token
	stats := &state.Usage{}
	b.Usage[model] = stats
	err := eachField(n, func(key string, value *yaml.Node) (err error) {
		switch key {
		case "requests":
			err = eachItem(value, func(item *yaml.Node) error {
				t, err := timeOf(item)
				stats.Requests = append(stats.Requests, t)
				return err
			})
		case "tokens":
			err = eachItem(value, func(item *yaml.Node) error {
				e, err := tokenEntryOf(item)
				entries = append(entries, e)
				return err
			})
		case "day_start":
			stats.DayStart, err = timeOf(value)
		case "day_count":
			stats.DayCount, err = countOf(value)
		case "day_tokens":
			stats.DayTokens, err = countOf(value)
		}
		return err
	})
	stats.Tokens = entries
	return err
}

func (b snapshotBuilder) cooldown(model string, n *yaml.Node) error {
	var c state.Cooldown
	err := eachField(n, func(key string, value *yaml.Node) (err error) {
		switch key {
		case "until":
			c.Until, err = timeOf(value)
		case "cause":
			c.Cause, err = causeOf(value)
		}
		return err
	})
	b.Cooldowns[model] = c
	return err
}

func (b snapshotBuilder) answers(model string, n *yaml.Node) error {
	var a state.Answers
	err := eachField(n, func(key string, value *yaml.Node) (err error) {
		for _, f := range state.AnswersFields {
			if f.Key == key {
				*f.Of(&a), err = countOf(value)
			}
		}
		if key == state.ErrorsKey {
			a.Errors, err = rowOf(value)
		}
		return err
	})
	if err == nil {
		err = a.Check()
	}
	b.Answers[model] = a
	return err
}

// rowOf reads numbers in one line.
func rowOf(n *yaml.Node) (state.Row, error) {
	if isNull(n) {
		return nil, nil
	}
	if n.Kind != yaml.ScalarNode {
		return nil, wrongType(n, "a row of integers")
	}
	row, err := state.ParseRow(n.Value)
	if err != nil {
		return nil, wrongType(n, fmt.Sprintf("a row of at most %d integers", state.MostErrors))
	}
	return row, nil
}

func tokenEntryOf(n *yaml.Node) (e state.Token, err error) {
	if isNull(n) {
		return e, wrongType(n, "a map")
	}
	err = eachField(n, func(key string, value *yaml.Node) (err error) {
		switch key {
		case "time":
			e.Time, err = timeOf(value)
		case "count":
			e.Count, err = countOf(value)
		case "input":
			e.Input, err = countOf(value)
		}
		return err
	})
	if err != nil {
		return e, err
	}
	return e, checkInput(e)
}

// countOf reads a decimal integer of zero or more.
func countOf(n *yaml.Node) (int, error) {
	v, err := integerOf(n, strconv.IntSize)
	if err == nil && v < 0 {
		return 0, fmt.Errorf("%d is negative", v)
	}
	return int(v), err
}

// integerOf reads a decimal integer of so many bits. YAML 1.1 would read 010 as 8;
// such a number is refused rather than guessed at.
func integerOf(n *yaml.Node, bits int) (int64, error) {
	digits := strings.TrimLeft(n.Value, "+-")
	if n.Kind != yaml.ScalarNode || n.Style != 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, wrongType(n, "an integer")
	}
	v, err := strconv.ParseInt(n.Value, 10, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%q is out of range", errtext.Clip(n.Value))
	case err != nil:
		return 0, wrongType(n, "an integer")
	}
	return v, nil
}

// timeOf reads a time of RFC 3339, in quotes or not. What else YAML takes for a
// time is refused: cut in the middle, a time may look like a date.
func timeOf(n *yaml.Node) (time.Time, error) {
	if n.Kind == yaml.ScalarNode {
		if t, err := timestamp([]byte(n.Value)); err == nil {
			return t, nil
		}
	}
	return time.Time{}, wrongType(n, "a time of RFC 3339")
}

// zoneOf reads the name of a time zone.
func zoneOf(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return "", wrongType(n, "a text")
	}
	_, err := clock.LoadZone(n.Value)
	return n.Value, err
}

// causeOf reads the cause of a cooldown. Whoever keeps it decides which causes there may be.
func causeOf(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return "", wrongType(n, "a text")
	}
	return n.Value, nil
}

// burstOf reads a duration as "10s". A bare number has no unit, and is refused; so is
// one in the notation of 60 that YAML once had.
func burstOf(n *yaml.Node) (time.Duration, error) {
	d, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil:
		return 0, wrongType(n, "a duration, as 10s")
	case d < 0:
		return 0, fmt.Errorf("%v is negative", d)
	}
	return d, nil
}
