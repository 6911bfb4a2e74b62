package ratelimit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// maxForeignYAML is the largest state file, in bytes, that is read in a layout
// other than the one that Persist writes. It bounds what a hostile file costs;
// in the layout of Persist there is no bound but the file's own size.
const maxForeignYAML = 1 << 20

// loadYAML reads a state file; nil when there is none.
func loadYAML(path string) (*snapshot, error) {
	if path == "" {
		return nil, errNoFile
	}
	s, err := readYAMLFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, corrupt(path, err)
	}
	return s, nil
}

func readYAMLFile(path string) (*snapshot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readYAML(f)
}

// readYAML reads the layout of Persist line by line, and any other by way of the
// YAML library.
func readYAML(f io.ReadSeeker) (*snapshot, error) {
	s, lineErr := scanYAML(f)
	if lineErr == nil {
		return s, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxForeignYAML+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxForeignYAML {
		return nil, fmt.Errorf("larger than %d bytes and not in the layout that Persist writes: %w", maxForeignYAML, lineErr)
	}
	return parseYAML(data)
}

// corruptError is a state file that cannot be read for one. Its text is short
// whatever the file holds.
type corruptError struct {
	text  string
	cause error
}

func corrupt(path string, cause error) error {
	const most = 1000
	if len(path) > 300 {
		path = "…" + path[len(path)-300:]
	}
	// An error of the file system names the path itself.
	if pathErr := (*fs.PathError)(nil); errors.As(cause, &pathErr) {
		cause = fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err)
	}
	text := fmt.Sprintf("%v: %s: %v", ErrCorruptState, path, cause)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return &corruptError{text, cause}
}

func (e *corruptError) Error() string   { return e.text }
func (e *corruptError) Unwrap() []error { return []error{ErrCorruptState, e.cause} }

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
	s := &snapshot{quotas: make(map[string]ModelQuota), state: make(map[string]*UsageStats)}
	if doc.Kind == 0 {
		return s, nil
	}
	root := doc.Content[0]
	if err := checkNode(root, ""); err != nil {
		return nil, err
	}
	err := eachField(root, "", func(key, path string, value *yaml.Node) error {
		switch key {
		case "quotas":
			return eachField(value, path, s.addQuota)
		case "state":
			return eachField(value, path, s.addStats)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// tooDense reports whether a document has far more elements than a state file
// of its size can have. The library allocates about 400 bytes for each, before
// anyone can look at it.
func tooDense(data []byte) bool {
	elements := 0
	for _, c := range data {
		switch c {
		case ',', '\n', '[', '{', '#', '?':
			elements++
		}
	}
	return elements > 8192+len(data)/8
}

// checkNode refuses what a state file has no use for and a hostile one does:
// anchors, aliases, tags, merge keys and duplicate keys, anywhere.
func checkNode(n *yaml.Node, path string) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return fmt.Errorf("%s: an alias", at(path))
	case n.Anchor != "":
		return fmt.Errorf("%s: an anchor", at(path))
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Errorf("%s: a tag %s", at(path), clip(n.Tag))
	case n.Kind == yaml.MappingNode:
		return checkFields(n, path)
	}
	for i, child := range n.Content {
		if err := checkNode(child, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func checkFields(n *yaml.Node, path string) error {
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key, err := keyName(n.Content[i])
		if err != nil {
			return fmt.Errorf("%s: %w", at(path), err)
		}
		child := join(path, key)
		if seen[key] {
			return fmt.Errorf("%s: a duplicate key", at(child))
		}
		seen[key] = true
		if err := checkNode(n.Content[i+1], child); err != nil {
			return err
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
		return "", errors.New("an anchor")
	case tag == "!!merge" || tag == "!!null":
		return "", fmt.Errorf("a key %q", clip(n.Value))
	case tag == "!!binary":
		name, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			return "", fmt.Errorf("a key that is no base64: %q", clip(n.Value))
		}
		return string(name), nil
	case n.Style&yaml.TaggedStyle != 0:
		return "", fmt.Errorf("a tag %s", clip(n.Tag))
	}
	return n.Value, nil
}

// at names a place in the document for an error.
func at(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

func join(path, key string) string {
	if path == "" {
		return clip(key)
	}
	return path + "." + clip(key)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// eachField visits the fields of a map that checkNode has passed. Null is an
// empty map.
func eachField(n *yaml.Node, path string, visit func(key, path string, value *yaml.Node) error) error {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return wrongType(n, path, "a map")
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, err := keyName(n.Content[i])
		if err != nil {
			return err
		}
		if err := visit(key, join(path, key), n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func eachItem(n *yaml.Node, path string, visit func(path string, value *yaml.Node) error) error {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return wrongType(n, path, "a list")
	}
	for i, item := range n.Content {
		if err := visit(fmt.Sprintf("%s[%d]", path, i), item); err != nil {
			return err
		}
	}
	return nil
}

func wrongType(n *yaml.Node, path, want string) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("%s: not %s", at(path), want)
	}
	return fmt.Errorf("%s: %q is not %s", at(path), clip(n.Value), want)
}

func (s *snapshot) addQuota(model, path string, n *yaml.Node) error {
	var q ModelQuota
	err := eachField(n, path, func(key, path string, value *yaml.Node) error {
		var err error
		switch key {
		case "max_rpm":
			q.MaxRPM, err = limitOf(value, path)
		case "max_tpm":
			q.MaxTPM, err = limitOf(value, path)
		case "max_rpd":
			q.MaxRPD, err = limitOf(value, path)
		}
		return err
	})
	s.quotas[model] = q
	return err
}

func (s *snapshot) addStats(model, path string, n *yaml.Node) error {
	stats := &UsageStats{}
	s.state[model] = stats
	return eachField(n, path, func(key, path string, value *yaml.Node) error {
		var err error
		switch key {
		case "requests":
			err = eachItem(value, path, func(path string, item *yaml.Node) error {
				t, err := timeOf(item, path)
				stats.Requests = append(stats.Requests, t)
				return err
			})
		case "tokens":
			err = eachItem(value, path, func(path string, item *yaml.Node) error {
				e, err := tokenEntryOf(item, path)
				stats.Tokens = append(stats.Tokens, e)
				return err
			})
		case "day_start":
			stats.DayStart, err = timeOf(value, path)
		case "day_count":
			stats.DayCount, err = countOf(value, path)
		}
		return err
	})
}

func tokenEntryOf(n *yaml.Node, path string) (e TokenEntry, err error) {
	if isNull(n) {
		return e, wrongType(n, path, "a map")
	}
	err = eachField(n, path, func(key, path string, value *yaml.Node) error {
		var err error
		switch key {
		case "time":
			e.Time, err = timeOf(value, path)
		case "count":
			e.Count, err = countOf(value, path)
		}
		return err
	})
	return e, err
}

// countOf reads a decimal integer of zero or more. YAML 1.1 would read 010 as 8;
// such a number is refused rather than guessed at.
func countOf(n *yaml.Node, path string) (int, error) {
	digits := strings.TrimLeft(n.Value, "+-")
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || len(digits) > 1 && digits[0] == '0' {
		return 0, wrongType(n, path, "an integer")
	}
	v, err := strconv.Atoi(n.Value)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s: %q is out of range", at(path), clip(n.Value))
	}
	if err != nil {
		return 0, wrongType(n, path, "an integer")
	}
	if v < 0 {
		return 0, &negativeError{path, v}
	}
	return v, nil
}

// negativeError is an integer below zero where none may be.
type negativeError struct {
	path  string
	value int
}

func (e *negativeError) Error() string {
	return fmt.Sprintf("%s: %d is negative", e.path, e.value)
}

// limitOf is countOf for a field of a quota.
func limitOf(n *yaml.Node, path string) (int, error) {
	v, err := countOf(n, path)
	if negative := (*negativeError)(nil); errors.As(err, &negative) {
		err = fmt.Errorf("%w: %w", ErrInvalidQuota, err)
	}
	return v, err
}

func timeOf(n *yaml.Node, path string) (t time.Time, err error) {
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!timestamp":
			if n.Decode(&t) == nil {
				return t, nil
			}
		case "!!str":
			if t, err = time.Parse(time.RFC3339Nano, n.Value); err == nil {
				return t, nil
			}
		}
	}
	return t, wrongType(n, path, "a time")
}
