# Moves the items that tokio_wheel has from tokio::time to it, in `use` items and in paths. The migration guide has the
# command that runs it.
our @items = qw(sleep sleep_until Sleep timeout timeout_at Timeout interval interval_at Interval
    MissedTickBehavior Instant Duration error error::Elapsed pause resume advance);
our %has = map { $_ => 1 } @items;
our $paths = join '|', grep { $_ ne 'error' } @items;
our $file = $_;

# Returns the elements of a list, which may contain lists.
sub elements {
    my ($list, @elements) = @_;
    push @elements, $1 while $list =~ /\s*((?:[^{},]++|(\{(?:[^{}]++|(?2))*\}))+)(?<!\s)/g;
    return grep { /\S/ } @elements;
}

# Returns the paths that a tree imports.
sub leaves {
    my ($tree) = @_;
    my ($path, $list) = $tree =~ /^(.*?)\{(.*)\}$/s or return $tree;
    return map { $path . $_ } map { leaves($_) } elements($list);
}

# Returns the names that a private glob gives to the file.
sub globbed {
    return grep {
        !/::/ && $file =~ /(?<![\w.:])$_\b/ && $file !~ /\buse\s[^;]*\b$_\b/
            && $file !~ /\b(?:fn|struct|enum|type|trait|mod)\s+$_\b/
    } @items;
}

# Returns one `use` for what stays with tokio, and one for the rest.
sub divide {
    my ($before, $tokio, $tree) = @_;
    my (@stay, @go);
    for my $element ($tree =~ /^\{(.*)\}$/s ? elements($1) : $tree) {
        for my $leaf ($element =~ /^time\b/ ? leaves($element) : $element) {
            my ($item, $as) = $leaf =~ /^time\b(?:::)?(.*?)(?:::self)?(\s+as\s+\w+)?\s*$/s;
            if (!defined $item) { push @stay, $leaf }
            elsif ($item =~ /^(self)?$/) { push @go, 'self' . ($as // ' as time') }
            elsif ($item eq '*' && $before !~ /\bpub\b/) { push @go, globbed() }
            elsif ($has{$item}) { push @go, $item . ($as // '') }
            else { push @stay, $leaf }
        }
    }
    my $use = sub {
        my ($root, @leaves) = @_;
        my $list = join ', ', @leaves;
        return () if !@leaves;
        return "${before}use $root$1;" if $list =~ /^self( as \w+)$/;
        return "${before}use ${root}::" . ($list =~ /^self$|,/ ? "{$list};" : "$list;");
    };
    return @go && join "\n", $use->($tokio, @stay), $use->("${tokio}_wheel", @go);
}

# Comments and strings come first, and stay as they are.
s{
    (?<comment> //[^\n]* | /\* (?: [^*/]++ | \*(?!/) | /(?!\*) | (?&comment) )* \*/ )
  | \b[bc]?r(?<hashes>\#*)" .*? "\k<hashes> | " (?: [^"\\]++ | \\. )* " | '\\?"'
  | (?<before> (?: \# (?<list> \[ (?: [^]["]++ | " (?: [^"\\]++ | \\. )* " | (?&list) )* \] ) (?: \s | (?&comment) )* )*
        (?: \bpub (?: \( [^)]* \) )? \s+ )? )
    \buse \s+ (?<tokio> (?:::)? tokio ) :: (?<tree> [^;/]+ ) ;
  | (?<![\w:]) (?<root> (?:::)? tokio ) ::time:: (?<path> $paths ) \b
}{
    my ($all, %part) = ($&, %+);
    $part{path} ? "$part{root}_wheel::$part{path}"
        : $part{tree} && divide(@part{qw(before tokio tree)}) || $all
}gsex;
