package jakarta.annotation;

/** Stands for the annotation of that name, which the generated client uses. */
public @interface Nullable {}
