package yamlfile

import (
	"encoding"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// maxConfig is how many bytes a configuration may have.
const maxConfig = 1 << 20

// DecodeConfig reads the YAML document of r into the struct that into points to, and refuses
// what the YAML library would pass over: unknown keys, numbers without a unit for durations, values
// of another type. Null and what the document does not name stay as they are. An error names the
// line, the key and the value.
//
// The exported fields of the struct and of the structs within have a yaml tag, a name or "-"; those
// of an embedded struct are fields of the outer one. They are texts, booleans, integers, durations
// (as "250ms"), structs, lists, arrays that a list need not fill, maps with texts as keys, or
// implement [encoding.TextUnmarshaler]; a struct that does may be a text or a map.
func DecodeConfig(r io.Reader, into any) error {
	data, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return err
	}
	if len(data) > maxConfig {
		return fmt.Errorf("larger than %d bytes", maxConfig)
	}
	root, err := parseDocument(data)
	if err != nil {
		return errtext.Printable(err)
	}
	if root == nil {
		return nil
	}
	return decode(root, reflect.ValueOf(into).Elem(), "")
}

var durationType = reflect.TypeFor[time.Duration]()

// binaryOnly is the only tag that a configuration may have: the YAML library writes what is no
// UTF-8 in base64.
const binaryOnly = "!!binary"

// decode sets v to the value of a node. The path says where the node is, as in quotas.m.max_rpm.
func decode(n *yaml.Node, v reflect.Value, path string) error {
	err := checkMarks(n, binaryOnly)
	switch {
	case err != nil:
		return inNode(n, path, err)
	case isNull(n):
		return nil
	}
	isMap := n.Kind == yaml.MappingNode && v.Kind() == reflect.Struct // of what may be a text, too
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && !isMap {
		err = decodeText(n, text.UnmarshalText)
		return inNode(n, path, err)
	}
	switch v.Kind() {
	case reflect.Struct:
		return eachEntry(n, path, func(e entry) error {
			field := fieldOf(v, e.name)
			if !field.IsValid() {
				return inNode(e.key, e.path, errors.New("unknown key"))
			}
			return decode(e.value, field, e.path)
		})
	case reflect.Map:
		return decodeMap(n, v, path)
	case reflect.Slice:
		return decodeList(n, v, path, func(size int) reflect.Value { return reflect.MakeSlice(v.Type(), size, size) })
	case reflect.Array:
		if n.Kind == yaml.SequenceNode && len(n.Content) > v.Len() {
			return inNode(n, path, fmt.Errorf("%d entries, more than %d", len(n.Content), v.Len()))
		}
		return decodeList(n, v, path, func(int) reflect.Value { return reflect.New(v.Type()).Elem() })
	}
	return inNode(n, path, decodeScalar(n, v))
}

func decodeMap(n *yaml.Node, v reflect.Value, path string) error {
	made := reflect.MakeMapWithSize(v.Type(), len(n.Content)/2)
	err := eachEntry(n, path, func(e entry) error {
		element := reflect.New(v.Type().Elem()).Elem()
		if err := decode(e.value, element, e.path); err != nil {
			return err
		}
		made.SetMapIndex(reflect.ValueOf(e.name).Convert(v.Type().Key()), element)
		return nil
	})
	if err == nil {
		v.Set(made)
	}
	return err
}

// decodeList sets v to the entries of a list, put into what empty returns for their number.
func decodeList(n *yaml.Node, v reflect.Value, path string, empty func(size int) reflect.Value) error {
	if n.Kind != yaml.SequenceNode {
		return inNode(n, path, wrongType(n, "a list"))
	}
	made := empty(len(n.Content))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if isNull(item) {
			return inNode(item, at, errors.New("empty"))
		}
		if err := decode(item, made.Index(i), at); err != nil {
			return err
		}
	}
	v.Set(made)
	return nil
}

func decodeScalar(n *yaml.Node, v reflect.Value) error {
	switch {
	case v.Type() == durationType:
		d, err := time.ParseDuration(n.Value)
		if err != nil || n.Kind != yaml.ScalarNode {
			return wrongType(n, "a duration with its unit, such as 250ms")
		}
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		return decodeText(n, func(text []byte) error {
			v.SetString(string(text))
			return nil
		})
	case v.Kind() == reflect.Bool:
		if n.ShortTag() != "!!bool" {
			return wrongType(n, "true or false")
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case v.CanInt():
		return decodeInt(n, v)
	default: // a field that nobody can set in a file
		return fmt.Errorf("cannot be read into %v", v.Type())
	}
	return nil
}

// decodeInt reads a decimal integer. YAML 1.1 would read 010 as 8; such a number is refused
// rather than guessed at.
func decodeInt(n *yaml.Node, v reflect.Value) error {
	digits := strings.TrimLeft(n.Value, "+-")
	i, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
	switch {
	case errors.Is(err, strconv.ErrRange) && n.Kind == yaml.ScalarNode:
		return fmt.Errorf("%q is out of range", errtext.Clip(n.Value))
	case err != nil || n.ShortTag() != "!!int" || len(digits) > 1 && digits[0] == '0':
		return wrongType(n, "an integer")
	}
	v.SetInt(i)
	return nil
}

func decodeText(n *yaml.Node, set func([]byte) error) error {
	text, err := scalarText(n)
	if err != nil {
		return err
	}
	return set([]byte(text))
}

// scalarText returns the text of a scalar. A number or a boolean is the text that it looks like, so
// that a tier may be written as 1; so is "<<", because there are no aliases to merge.
func scalarText(n *yaml.Node) (string, error) {
	if err := checkMarks(n, binaryOnly); err != nil {
		return "", err
	}
	switch tag := n.ShortTag(); {
	case n.Kind != yaml.ScalarNode:
		return "", wrongType(n, "a text")
	case tag == "!!null":
		return "", fmt.Errorf("%q is not a text; write it in quotes", n.Value)
	case tag == binaryOnly:
		text, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			return "", wrongType(n, "base64")
		}
		return string(text), nil
	}
	return n.Value, nil
}

// fieldOf returns the field of a struct whose yaml tag has the given name, the zero Value if there
// is none.
func fieldOf(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous {
			if field := fieldOf(v.Field(i), key); field.IsValid() {
				return field
			}
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if name == key && name != "" && name != "-" {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// entry is an entry of a map.
type entry struct {
	name       string // the text of the key
	key, value *yaml.Node
	path       string // of the value
}

// eachEntry visits the entries of a map, and refuses a key that comes twice.
func eachEntry(n *yaml.Node, path string, visit func(entry) error) error {
	if n.Kind != yaml.MappingNode {
		return inNode(n, path, wrongType(n, "a map"))
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		name, err := scalarText(key)
		at := join(path, name)
		switch {
		case err != nil:
			return inNode(key, path, fmt.Errorf("key: %w", err))
		case seen[name]:
			return inNode(key, at, errors.New("duplicate key"))
		}
		seen[name] = true
		if err := visit(entry{name, key, n.Content[i+1], at}); err != nil {
			return err
		}
	}
	return nil
}

// join puts the text of a key behind a path. Keys are quoted unless they are plain.
func join(path, key string) string {
	name := errtext.Clip(key)
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// inNode says in which line and field an error is.
func inNode(n *yaml.Node, path string, err error) error {
	switch {
	case err == nil:
		return nil
	case path == "":
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return fmt.Errorf("line %d: %s: %w", n.Line, path, err)
}
