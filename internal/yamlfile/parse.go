package yamlfile

import (
	"encoding/base64"
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// parse reads any layout of at most maxForeign bytes. It goes by way of
// yaml.Node, because decoding into values directly makes the library compare
// all keys of a map with each other, turns 1.5 into 1, and ignores a second
// document.
func parse(data []byte) (*state.Snapshot, error) {
	root, err := parseDocument(data)
	if err != nil {
		return nil, err
	}
	b := snapshotBuilder{state.NewSnapshot()}
	if root == nil {
		return b.Snapshot, nil
	}
	if err := checkNode(root); err != nil {
		return nil, err
	}
	readers := map[string]func(model string, value *yaml.Node) error{
		"quotas": b.quota, "state": b.usage, "cooldowns": b.cooldown, "origins": b.origins, "answers": b.answers, "found": b.found, "spend": b.spend,
		poolsKey: b.pool, poolPrefix + "state": b.usage, poolPrefix + "cooldowns": b.cooldown,
		poolPrefix + "origins": b.origins, poolPrefix + "found": b.found, poolPrefix + "spend": b.spend,
	}
	err = eachField(root, func(key string, value *yaml.Node) error {
		read, counted := readers[key], countedBy(key)
		if read == nil {
			return nil
		}
		return eachField(value, func(name string, value *yaml.Node) error { return read(counted(name), value) })
	})
	if err != nil {
		return nil, err
	}
	return b.Snapshot, nil
}

// checkNode refuses constructs that only a hostile state file has: anchors, aliases, tags, merge
// keys and duplicate keys, anywhere.
func checkNode(n *yaml.Node) error {
	if err := checkMarks(n, ""); err != nil {
		return err
	}
	if n.Kind == yaml.MappingNode {
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
		return "", errors.New("a key that is not text")
	case n.Anchor != "":
		return "", fmt.Errorf("an anchor &%s", errtext.Clip(n.Anchor))
	case tag == "!!merge" || tag == "!!null":
		return "", fmt.Errorf("a key %q", errtext.Clip(n.Value))
	case tag == "!!binary":
		name, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			return "", fmt.Errorf("a key that is not base64: %q", errtext.Clip(n.Value))
		}
		return string(name), nil
	case n.Style&yaml.TaggedStyle != 0:
		return "", fmt.Errorf("a tag %q", errtext.Clip(n.Tag))
	}
	return n.Value, nil
}

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
