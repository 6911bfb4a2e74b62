package ratelimit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// parseYAML reads any layout of at most maxForeignYAML bytes. It goes by way of
// yaml.Node, because decoding into values directly makes the library compare
// all keys of a map with each other, turns 1.5 into 1, and ignores a second
// document.
func parseYAML(data []byte) (*snapshot, error) {
	if tooDense(data) {
		return nil, errors.New("too many elements for its size")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("a second document")
	}
	s := newSnapshot()
	if doc.Kind == 0 {
		return s, nil
	}
	root := doc.Content[0]
	if err := checkNode(root); err != nil {
		return nil, err
	}
	err := eachField(root, func(key string, value *yaml.Node) error {
		switch key {
		case "quotas":
			return eachField(value, s.addQuota)
		case "state":
			return eachField(value, s.addStats)
		case "cooldowns":
			return eachField(value, s.addCooldown)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// tooDense reports whether a document has far more elements than a state file
// of its size has: more than one in 16 bytes. The library allocates up to a
// kilobyte for each, before anyone can look at it.
func tooDense(data []byte) bool {
	elements := 0
	for _, mark := range []string{",", "[", "{", "?", "#", "- ", "-\t", "\n", "\r", "\u0085", "\u2028", "\u2029"} {
		elements += bytes.Count(data, []byte(mark))
	}
	for _, pair := range []string{",\n", "[\n", "{\n", "\r\n"} { // indented JSON, and the line ends of Windows
		elements -= bytes.Count(data, []byte(pair))
	}
	return elements > 8192+len(data)/16
}

// checkNode refuses what a state file has no use for and a hostile one does:
// anchors, aliases, tags, merge keys and duplicate keys, anywhere.
func checkNode(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return fmt.Errorf("an alias *%s", errtext.Clip(n.Value))
	case n.Anchor != "":
		return fmt.Errorf("an anchor &%s", errtext.Clip(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Errorf("a tag %q", errtext.Clip(n.Tag))
	case n.Kind == yaml.MappingNode:
		return checkFields(n)
	}
	for i, child := range n.Content {
		if err := checkNode(child); err != nil {
			return inItem(i, err)
		}
	}
	return nil
}

func checkFields(n *yaml.Node) error {
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key, err := keyName(n.Content[i])
		if err != nil {
			return err
		}
		if seen[key] {
			return inField(key, errDuplicate)
		}
		seen[key] = true
		if err := checkNode(n.Content[i+1]); err != nil {
			return inField(key, err)
		}
	}
	return nil
}

// keyName returns a key's text. A number or a boolean is taken for the name
// that it looks like, as decoding into a map of strings does.
func keyName(n *yaml.Node) (string, error) {
	tag := n.ShortTag()
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", errors.New("a key that is no text")
	case n.Anchor != "":
		return "", fmt.Errorf("an anchor &%s", errtext.Clip(n.Anchor))
	case tag == "!!merge" || tag == "!!null":
		return "", fmt.Errorf("a key %q", errtext.Clip(n.Value))
	case tag == "!!binary":
		name, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			return "", fmt.Errorf("a key that is no base64: %q", errtext.Clip(n.Value))
		}
		return string(name), nil
	case n.Style&yaml.TaggedStyle != 0:
		return "", fmt.Errorf("a tag %q", errtext.Clip(n.Tag))
	}
	return n.Value, nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// eachField visits the fields of a map that checkNode has passed. Null is an
// empty map.
func eachField(n *yaml.Node, visit func(key string, value *yaml.Node) error) error {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return wrongType(n, "a map")
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, err := keyName(n.Content[i])
		if err != nil {
			return err
		}
		if err := visit(key, n.Content[i+1]); err != nil {
			return inField(key, err)
		}
	}
	return nil
}

func eachItem(n *yaml.Node, visit func(*yaml.Node) error) error {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return wrongType(n, "a list")
	}
	for i, item := range n.Content {
		if err := visit(item); err != nil {
			return inItem(i, err)
		}
	}
	return nil
}

func (s *snapshot) addQuota(model string, n *yaml.Node) error {
	var q ModelQuota
	err := eachField(n, func(key string, value *yaml.Node) (err error) {
		if limit := q.limit(key); limit != nil {
			*limit, err = countOf(value)
		} else if key == "day_zone" {
			q.DayZone, err = zoneOf(value)
		} else if key == "burst" {
			q.Burst, err = burstOf(value)
		}
		return err
	})
	s.quotas[model] = q
	return invalidQuota(err)
}

func (s *snapshot) addStats(model string, n *yaml.Node) error {
	stats := &UsageStats{}
	s.state[model] = stats
	return eachField(n, func(key string, value *yaml.Node) (err error) {
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
				stats.Tokens = append(stats.Tokens, e)
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
}

func (s *snapshot) addCooldown(model string, n *yaml.Node) error {
	var until time.Time
	err := eachField(n, func(key string, value *yaml.Node) (err error) {
		if key == "until" {
			until, err = timeOf(value)
		}
		return err
	})
	s.cooldowns[model] = until
	return err
}

func tokenEntryOf(n *yaml.Node) (e TokenEntry, err error) {
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
	return e, e.checkInput()
}

// countOf reads a decimal integer of zero or more. YAML 1.1 would read 010 as 8;
// such a number is refused rather than guessed at.
func countOf(n *yaml.Node) (int, error) {
	digits := strings.TrimLeft(n.Value, "+-")
	if n.Kind != yaml.ScalarNode || n.Style != 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, wrongType(n, "an integer")
	}
	v, err := strconv.Atoi(n.Value)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%q is out of range", errtext.Clip(n.Value))
	case err != nil:
		return 0, wrongType(n, "an integer")
	case v < 0:
		return 0, fmt.Errorf("%d is negative", v)
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

func wrongType(n *yaml.Node, want string) error {
	switch n.Kind {
	case yaml.MappingNode:
		return fmt.Errorf("a map is not %s", want)
	case yaml.SequenceNode:
		return fmt.Errorf("a list is not %s", want)
	}
	return fmt.Errorf("%q is not %s", errtext.Clip(n.Value), want)
}
